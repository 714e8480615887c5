// SPDX-License-Identifier: Apache-2.0
//
// Compares the packaged launcher's replacements for functions of newer glibc with the functions of this machine's
// glibc.
#define TBPROF_NEWER_SYMBOLS_TEST 1
#include "launcher/glibc/newer_symbols.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "launcher/glibc/newer_symbols.cc"

namespace {

std::string Text(const char* text) { return text == nullptr ? "(null)" : text; }

TEST(NewerSymbols, ErrorNames_AllNumbers_AsGlibc) {
  for (int error = -2; error < 300; ++error) {
    EXPECT_EQ(Text(tbprof_newer_strerrorname_np(error)), Text(strerrorname_np(error))) << error;
    EXPECT_EQ(Text(tbprof_newer_strerrordesc_np(error)), Text(strerrordesc_np(error))) << error;
  }
}

TEST(NewerSymbols, SignalNames_AllNumbers_AsGlibc) {
  for (int signal = -2; signal < 100; ++signal) {
    EXPECT_EQ(Text(tbprof_newer_sigabbrev_np(signal)), Text(sigabbrev_np(signal))) << signal;
  }
}

TEST(NewerSymbols, FindObject_CodeHereAndInLibc_AsGlibc) {
  for (void* address : {reinterpret_cast<void*>(&Text), reinterpret_cast<void*>(&dl_iterate_phdr)}) {
    dl_find_object ours{}, glibc{};
    ASSERT_EQ(tbprof_newer__dl_find_object(address, &ours), 0);
    ASSERT_EQ(_dl_find_object(address, &glibc), 0);
    EXPECT_EQ(ours.dlfo_eh_frame, glibc.dlfo_eh_frame);
    EXPECT_LE(ours.dlfo_map_start, address);
    EXPECT_GT(ours.dlfo_map_end, address);
  }
}

TEST(NewerSymbols, FindObject_NoCode_Fails) {
  dl_find_object ours{};
  int local = 0;
  EXPECT_EQ(tbprof_newer__dl_find_object(&local, &ours), -1);
}

TEST(NewerSymbols, Random_ManyCalls_Differ) {
  std::set<uint32_t> values;
  for (int i = 0; i < 100; ++i) values.insert(tbprof_newer_arc4random());
  EXPECT_GT(values.size(), 90u);
}

timespec MonotonicIn(std::chrono::nanoseconds wait) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += wait / std::chrono::seconds(1);
  until.tv_nsec += (wait % std::chrono::seconds(1)).count();
  if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
  return until;
}

TEST(NewerSymbols, ClockWait_PastTime_TimesOut) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (const std::chrono::nanoseconds wait : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(999'999'999)}) {
    timespec until = MonotonicIn(wait);
    until.tv_sec -= 1;
    EXPECT_EQ(tbprof_newer_pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
  }
  pthread_mutex_unlock(&mutex);
}

TEST(NewerSymbols, ClockWait_Notified_Wakes) {
  std::mutex mutex;
  std::condition_variable condition;
  bool woken = false;
  std::unique_lock<std::mutex> lock(mutex);
  std::thread other([&] {
    const std::lock_guard<std::mutex> guard(mutex);
    woken = true;
    condition.notify_one();
  });
  const timespec until = MonotonicIn(std::chrono::hours(1));
  while (!woken) {
    ASSERT_EQ(
        tbprof_newer_pthread_cond_clockwait(condition.native_handle(), mutex.native_handle(), CLOCK_MONOTONIC, &until),
        0);
  }
  lock.unlock();
  other.join();
}

}  // namespace
