/* Children of fork(2) that use objects of their own, while other threads are in the middle of calls. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <zircon/process.h>

#include "check.h"

#define THREADS 3
#define LENGTH (16ul << 20)

static _Atomic int stop;

static void* create_and_close(void* arg) {
  while (!stop) {
    zx_handle_t event = new_event();
    int fd = -1;
    OK(uncopy_zx_poll_fd_create(event, ZX_EVENT_SIGNALED, &fd));
    OK(uncopy_zx_poll_fd_close(fd));
    OK(zx_handle_close(event));
  }
  return arg;
}

static void* map_and_unmap(void* arg) {
  zx_handle_t vmo = ZX_HANDLE_INVALID;
  zx_vm_option_t how = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE | ZX_VM_MAP_RANGE;
  OK(zx_vmo_create(LENGTH, 0, &vmo));
  while (!stop) {
    zx_vaddr_t at = 0;
    OK(zx_vmar_map(zx_vmar_root_self(), how, 0, vmo, 0, LENGTH, &at));
    OK(zx_vmar_unmap(zx_vmar_root_self(), at, LENGTH));
  }
  OK(zx_handle_close(vmo));
  return arg;
}

/* Returns 0 if every call works. */
static int use_new_objects(void) {
  zx_handle_t event = ZX_HANDLE_INVALID, vmo = ZX_HANDLE_INVALID;
  zx_vaddr_t at = 0;
  int fd = -1;
  zx_vm_option_t how = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
  /* More handles than there are parts of the table with a lock. */
  for (int i = 0; i < 32; ++i) {
    if (zx_event_create(0, &event) != ZX_OK) return 1;
  }
  if (uncopy_zx_poll_fd_create(event, ZX_EVENT_SIGNALED, &fd) != ZX_OK) return 2;
  if (uncopy_zx_poll_fd_close(fd) != ZX_OK) return 3;
  if (zx_handle_close(event) != ZX_OK) return 4;
  if (zx_vmo_create(4096, 0, &vmo) != ZX_OK) return 5;
  if (zx_vmar_map(zx_vmar_root_self(), how, 0, vmo, 0, 4096, &at) != ZX_OK) return 6;
  if (zx_vmar_unmap(zx_vmar_root_self(), at, 4096) != ZX_OK) return 7;
  return 0;
}

static void fork_while(void* (*run)(void*), int rounds) {
  pthread_t threads[THREADS];
  stop = 0;
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, run, NULL);
  for (int i = 0; i < rounds && failures == 0; ++i) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
      /* A child that hangs is killed. */
      alarm(60);
      _exit(use_new_objects());
    }
    CHECK(child > 0);
    EQ(waitpid(child, &status, 0), child);
    EQ(status, 0);
  }
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

/* None under AddressSanitizer, whose own allocator may stay locked in a child. */
static int rounds_of(int all) {
#ifdef __SANITIZE_ADDRESS__
  return 0 * all;
#else
  return getenv("UNCOPY_ZX_TEST_SHORT") != NULL ? all / 10 : all;
#endif
}

static void a_child_creates_objects(void) { fork_while(create_and_close, rounds_of(1000)); }

static void a_child_maps_memory(void) { fork_while(map_and_unmap, rounds_of(100)); }

int main(void) {
  choose_mode();
  /* The library finds out about the system when it is first used. */
  EQ(use_new_objects(), 0);
  RUN(a_child_creates_objects);
  RUN(a_child_maps_memory);
  return failures != 0;
}
