// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/captures.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "launcher/base/text.h"

namespace tbprof {
namespace {

// How long a Terminate is remembered that arrives before its Profile.
constexpr uint64_t kTerminateHoldsNs = 10'000'000'000;

bool IsCurrent(const Capture& capture) {
  return capture.state == Capture::State::kAgreed || capture.state == Capture::State::kOpen;
}

}  // namespace

absl::StatusOr<Capture*> Captures::Ask(CaptureRequest request, const Asker& asker, const CaptureTimes& times) {
  for (const Capture& other : captures_) {
    if (!IsCurrent(other) || other.asker.monitor != asker.monitor) continue;
    const uint64_t left = other.closes_ns > times.now_ns ? other.closes_ns - times.now_ns : 0;
    const absl::Time until = absl::FromUnixNanos(static_cast<int64_t>(times.now_unix_ns + left));
    return absl::AlreadyExistsError(
        StrCat(asker.monitor ? "another monitor" : StrCat("capture ", other.number), " of ", other.request.asked_by,
               " is open until ", absl::FormatTime("%H:%M:%S", until, absl::LocalTimeZone()),
               absl::StrFormat(" (%.1f s); one at a time", static_cast<double>(left) / 1e9)));
  }
  Capture capture;
  capture.number = ++numbers_;
  if (!asker.monitor) ++count_;
  capture.asker = asker;
  const uint64_t ahead = request.start_unix_ns > times.now_unix_ns ? request.start_unix_ns - times.now_unix_ns : 0;
  capture.opens_ns = times.now_ns + ahead;
  capture.closes_ns = capture.opens_ns + request.duration_ns;
  if (request.deadline_unix_ns != 0) {
    capture.gives_up_ns =
        times.now_ns +
        (request.deadline_unix_ns > times.now_unix_ns ? request.deadline_unix_ns - times.now_unix_ns : 0);
  }
  if (!terminated_.empty() && terminated_ == request.run && times.now_ns < terminated_ns_ + kTerminateHoldsNs) {
    capture.opens_ns = capture.closes_ns = times.now_ns;
    terminated_.clear();
  }
  capture.request = std::move(request);
  captures_.push_back(std::move(capture));
  return &captures_.back();
}

Capture* Captures::Add(CaptureRequest request) {
  Capture capture;
  capture.number = ++numbers_;
  ++count_;
  capture.state = Capture::State::kWriting;
  capture.request = std::move(request);
  captures_.push_back(std::move(capture));
  return &captures_.back();
}

std::vector<uint32_t> Captures::Numbers() const {
  std::vector<uint32_t> numbers;
  for (const Capture& capture : captures_) numbers.push_back(capture.number);
  return numbers;
}

Capture* Captures::Find(uint32_t number) {
  const auto found =
      std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) { return c.number == number; });
  return found == captures_.end() ? nullptr : &*found;
}

Capture* Captures::Find(uint32_t client, uint64_t id) {
  const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) {
    return c.asker.client == client && c.asker.id == id && client != 0;
  });
  return found == captures_.end() ? nullptr : &*found;
}

const Capture* Captures::Current() const {
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [](const Capture& c) { return IsCurrent(c) && !c.asker.monitor; });
  return found == captures_.end() ? nullptr : &*found;
}

void Captures::Remove(uint32_t number) {
  captures_.remove_if([&](const Capture& capture) { return capture.number == number; });
}

void Captures::Terminate(const std::string& run, uint64_t now_ns) {
  if (run.empty()) return;  // a client cannot end captures without a name, such as those of signals
  bool found = false;
  for (Capture& capture : captures_) {
    if (!IsCurrent(capture) || capture.asker.monitor || capture.request.run != run) continue;
    capture.opens_ns = std::min(capture.opens_ns, now_ns);
    capture.closes_ns = now_ns;
    found = true;
  }
  if (found) return;
  terminated_ = run;
  terminated_ns_ = now_ns;
}

uint64_t Captures::NextNs() const {
  uint64_t next = UINT64_MAX;
  for (const Capture& capture : captures_) {
    if (capture.state == Capture::State::kAgreed) next = std::min(next, capture.opens_ns);
    if (capture.state == Capture::State::kOpen) next = std::min(next, capture.closes_ns);
  }
  return next;
}

}  // namespace tbprof
