/* Common code of the test programs: checks, and a check for leaked handles. */
#ifndef CHECK_H_
#define CHECK_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <uncopy/zx.h>
#include <zircon/status.h>
#include <zircon/syscalls.h>
#include <zircon/time.h>

static int failures;

#define CHECK(what)                                                   \
  do {                                                                \
    if (!(what)) {                                                    \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

#define EQ(found, expected)                                                                  \
  do {                                                                                       \
    long long found_ = (long long)(found), expected_ = (long long)(expected);                \
    if (found_ != expected_) {                                                               \
      fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #found, found_, \
              expected_, #expected);                                                         \
      ++failures;                                                                            \
    }                                                                                        \
  } while (0)

#define OK(call) EQ(call, ZX_OK)

static inline uint64_t open_handles(void) {
  uncopy_zx_counters_t counters = {0, 0, 0, 0, 0};
  OK(uncopy_zx_get_counters(&counters));
  return counters.handles;
}

/* Runs a test, which must not change the number of open handles. */
#define RUN(test)                                                      \
  do {                                                                 \
    int failures_before = failures;                                    \
    uint64_t handles_before = open_handles();                          \
    test();                                                            \
    EQ(open_handles(), handles_before);                                \
    printf("%s %s\n", failures == failures_before ? "ok" : "FAILED", #test); \
  } while (0)

/* Runs a test of what emulators and Valgrind do not do as the kernel: limits on descriptors, and memory that a child does
 * not inherit. */
#define RUN_UNLESS_EMULATED(test)                          \
  do {                                                     \
    if (getenv("UNCOPY_ZX_TEST_EMULATED") == NULL) {       \
      RUN(test);                                           \
    } else {                                               \
      printf("not run on an emulated system: %s\n", #test); \
    }                                                      \
  } while (0)

/* Valgrind cannot extend the stack for a signal. */
static inline void use_some_stack(void) {
  volatile char space[131072];
  for (size_t i = 0; i < sizeof(space); i += 1024) space[i] = 0;
}

/* Chooses copies by the kernel if the environment says so, and ends a program that hangs. */
static inline void choose_mode(void) {
  use_some_stack();
  alarm(300);
  if (getenv("UNCOPY_ZX_TEST_KERNEL") != NULL) {
    OK(uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_KERNEL));
  }
}

static inline zx_handle_t new_event(void) {
  zx_handle_t event = ZX_HANDLE_INVALID;
  OK(zx_event_create(0, &event));
  return event;
}

/* Returns 0 if channels have a socket between their ends. Objects have another koid then after they were
 * sent, and the kernel sets the bounds of queues. */
static inline int is_local(void) { return getenv("UNCOPY_ZX_TEST_SOCKET") == NULL; }

/* Makes a channel; one with a socket between its ends if the environment says so. */
static inline void new_channel(zx_handle_t ends[2]) {
  OK(zx_channel_create(0, &ends[0], &ends[1]));
  if (!is_local()) {
    int fd = -1;
    OK(uncopy_zx_channel_to_fd(ends[1], &fd));
    OK(uncopy_zx_channel_from_fd(fd, &ends[1]));
  }
}

static inline void close_both(zx_handle_t ends[2]) {
  OK(zx_handle_close(ends[0]));
  OK(zx_handle_close(ends[1]));
}

static inline zx_signals_t signals_of(zx_handle_t handle) {
  zx_signals_t observed = 0xdead;
  EQ(zx_object_wait_one(handle, 0, 0, &observed), ZX_ERR_TIMED_OUT);
  return observed;
}

static inline zx_koid_t koid_of(zx_handle_t handle) {
  zx_info_handle_basic_t info;
  OK(zx_object_get_info(handle, ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL));
  return info.koid;
}

/* Lets the process open at most count more descriptors; returns the limit from before, for more_descriptors. */
static inline struct rlimit leave_descriptors(rlim_t count) {
  struct rlimit before, now;
  int lowest = dup(0);
  CHECK(lowest >= 0);
  close(lowest);
  EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  now = before;
  now.rlim_cur = (rlim_t)lowest + count;
  EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  return before;
}

static inline void more_descriptors(struct rlimit limit) {
  EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Returns 1 while the handle is open. */
static inline int is_open(zx_handle_t handle) { return zx_handle_check_valid(handle) == ZX_OK; }

#endif
