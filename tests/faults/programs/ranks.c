// SPDX-License-Identifier: Apache-2.0
// ranks WORLD [absent=N] [endless=N] [killed=N] [fails=N]: starts WORLD programs with the variables of torchrun, which
// end together when all are there; rank `absent` is not started, rank `endless` goes on when the command has ended,
// until the file `stop` is there; rank `killed` kills itself when it has written its fact, and is never waited for;
// rank `fails` ends with status
// 7. Facts: `rank N` by each.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "../../programs/facts.h"

static int Numbered(int argc, char** argv, const char* name) {
  for (int i = 2; i < argc; ++i) {
    if (strncmp(argv[i], name, strlen(name)) == 0) return atoi(argv[i] + strlen(name));
  }
  return -1;
}

static int Rank(int argc, char** argv) {
  const int rank = atoi(argv[1]);
  for (int i = 0; i < 5; ++i) usleep(1000);
  free(malloc(1 << 20));
  Report("rank", (uint64_t)rank);
  if (rank == atoi(argv[4])) kill(getpid(), SIGKILL);
  // Inherited: closed when the last of the others begins to wait for it.
  char byte;
  while (read(atoi(argv[2]), &byte, 1) < 0 && errno == EINTR) {
  }
  if (rank == atoi(argv[5])) return 7;
  if (rank != atoi(argv[3])) return 0;
  // The working directory goes with the test.
  for (int i = 0; i < 6000 && access("stop", F_OK) != 0 && access(".", F_OK) == 0; ++i) SleepUnseen(10);
  (void)argc;
  return 0;
}

int main(int argc, char** argv) {
  if (strcmp(argv[0], "rank") == 0) return Rank(argc, argv);
  const int world = atoi(argv[1]), absent = Numbered(argc, argv, "absent="), endless = Numbered(argc, argv, "endless=");
  const int killed = Numbered(argc, argv, "killed="), fails = Numbered(argc, argv, "fails=");
  int ends[2];
  if (pipe(ends) != 0) return 1;
  pid_t pids[512];
  int count = 0;
  for (int rank = 0; rank < world && rank < 512; ++rank) {
    if (rank == absent) continue;
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[1]);
      char number[16], fd[16], last[16], size[16], kills[16], fail[16];
      snprintf(number, sizeof(number), "%d", rank);
      snprintf(fd, sizeof(fd), "%d", ends[0]);
      snprintf(last, sizeof(last), "%d", endless);
      snprintf(size, sizeof(size), "%d", world);
      snprintf(kills, sizeof(kills), "%d", killed);
      snprintf(fail, sizeof(fail), "%d", fails);
      setenv("RANK", number, 1);
      setenv("LOCAL_RANK", number, 1);
      setenv("WORLD_SIZE", size, 1);
      execl("/proc/self/exe", "rank", number, fd, last, kills, fail, (char*)NULL);
      _exit(9);
    }
    if (rank != endless && rank != killed) pids[count++] = pid;
  }
  // Until each has reported.
  const char* path = getenv("TEST_FACTS");
  const int expected = absent >= 0 ? world - 1 : world;
  for (int i = 0; i < 6000; ++i) {
    int said = 0, c;
    FILE* facts = fopen(path, "r");
    while (facts != NULL && (c = getc(facts)) != EOF) said += c == '\n';
    if (facts != NULL) fclose(facts);
    if (said >= expected) break;
    SleepUnseen(10);
  }
  close(ends[1]);
  for (int i = 0; i < count; ++i) waitpid(pids[i], NULL, 0);
  return 5;
}
