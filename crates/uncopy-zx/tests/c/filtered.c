/* Works when a filter forbids process_vm_readv and membarrier. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "check.h"

#define REFUSE(number)                                    \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),    \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/* Returns 0 if there are no filters, as in an emulator. */
static int forbid(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      REFUSE(__NR_process_vm_readv),
      REFUSE(__NR_process_vm_writev),
      REFUSE(__NR_membarrier),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void the_kernel_copies_another_way(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  static char sent[65536], received[65536];
  for (size_t i = 0; i < sizeof(sent); ++i) sent[i] = (char)(i * 7);
  OK(zx_channel_write(ends[0], 0, sent, sizeof(sent), NULL, 0));
  uint32_t size = 0;
  OK(zx_channel_read(ends[1], 0, received, NULL, sizeof(received), 0, &size, NULL));
  EQ(size, sizeof(sent));
  EQ(memcmp(sent, received, sizeof(sent)), 0);
  EQ(zx_channel_write(ends[0], 0, (void*)16, 100, NULL, 0), ZX_ERR_INVALID_ARGS);
  OK(zx_channel_write(ends[0], 0, sent, 100, NULL, 0));
  EQ(zx_channel_read(ends[1], 0, (void*)16, NULL, 100, 0, NULL, NULL), ZX_ERR_INVALID_ARGS);
  close_both(ends);
}

static int canceled;

static void* wait_for(void* handle) {
  zx_status_t status =
      zx_object_wait_one(*(zx_handle_t*)handle, ZX_EVENT_SIGNALED, ZX_TIME_INFINITE, NULL);
  /* BAD_HANDLE: the thread came too late to wait. */
  CHECK(status == ZX_ERR_CANCELED || status == ZX_ERR_BAD_HANDLE);
  canceled += status == ZX_ERR_CANCELED;
  return NULL;
}

/* Closing a handle that another thread uses works, whichever thread is the last. */
static void what_is_in_use_is_closed(void) {
  /* More rounds, with more time, if the waiter always came too late. */
  for (int round = 0; round < 50 || canceled == 0; ++round) {
    zx_handle_t event = new_event();
    pthread_t waiter;
    EQ(pthread_create(&waiter, NULL, wait_for, &event), 0);
    /* Until it waits, or almost. */
    usleep(round < 50 ? 500 : 50000);
    zx_handle_t closed = event;
    OK(zx_handle_close(closed));
    EQ(pthread_join(waiter, NULL), 0);
    CHECK(!is_open(closed));
  }
}

int main(void) {
  use_some_stack();
  alarm(300);
  if (!forbid()) {
    printf("no filters here (%s)\n", strerror(errno));
    return 0;
  }
  OK(uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_KERNEL));
  RUN(the_kernel_copies_another_way);
  RUN(what_is_in_use_is_closed);
  return failures != 0;
}
