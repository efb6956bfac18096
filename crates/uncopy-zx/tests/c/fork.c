/* Children of fork(2): objects of their parent, and objects of their own while other threads are in the middle of
 * calls. */
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

/* Counts a call that a child is not refused. */
#define REFUSED(call)                                              \
  do {                                                             \
    zx_status_t status_ = (call);                                  \
    if (status_ != ZX_ERR_BAD_STATE) {                             \
      fprintf(stderr, "%s in a child: %d\n", #call, (int)status_); \
      ++failures;                                                  \
    }                                                              \
  } while (0)

/* Objects of the parent. */
static zx_handle_t channel[2], wired[2], event, pair[2], port, socket_ends[2], fifo[2], vmo, file;

/* Returns the number of calls that were not refused. */
static int use_inherited_objects(void) {
  zx_port_packet_t packet = {0};
  zx_info_handle_basic_t basic;
  zx_info_handle_count_t count;
  zx_info_socket_t info;
  zx_vaddr_t at;
  zx_handle_t out, new_ends[2];
  uint64_t size = 1;
  size_t actual;
  char buffer[64] = "child!";
  int fd, before = failures;
  zx_vm_option_t how = ZX_VM_PERM_READ | ZX_VM_ALLOW_FAULTS;
  zx_handle_t all[] = {channel[0], wired[0], event, pair[0], port, socket_ends[0], fifo[0], vmo, file};
  REFUSED(zx_channel_write(channel[0], 0, buffer, 1, NULL, 0));
  REFUSED(zx_channel_read(wired[0], 0, buffer, NULL, 64, 0, NULL, NULL));
  REFUSED(zx_object_wait_one(wired[0], ZX_CHANNEL_READABLE, 0, NULL));
  REFUSED(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
  REFUSED(zx_object_signal_peer(pair[0], 0, ZX_USER_SIGNAL_0));
  REFUSED(zx_object_wait_async(event, port, 1, ZX_EVENT_SIGNALED, 0));
  REFUSED(zx_port_queue(port, &packet));
  REFUSED(zx_port_wait(port, 0, &packet));
  REFUSED(zx_port_cancel(port, event, 1));
  REFUSED(zx_socket_write(socket_ends[0], 0, buffer, 1, &actual));
  REFUSED(zx_socket_read(socket_ends[0], 0, buffer, 1, &actual));
  REFUSED(zx_fifo_write(fifo[0], 8, buffer, 1, &actual));
  REFUSED(zx_fifo_read(fifo[0], 8, buffer, 1, &actual));
  REFUSED(zx_vmo_read(vmo, buffer, 0, 6));
  REFUSED(zx_vmo_write(vmo, "child!", 0, 6));
  REFUSED(zx_vmo_get_size(vmo, &size));
  REFUSED(zx_vmo_set_size(vmo, 8192));
  REFUSED(zx_vmo_get_stream_size(vmo, &size));
  REFUSED(zx_vmo_set_stream_size(vmo, 10));
  REFUSED(zx_vmo_op_range(vmo, ZX_VMO_OP_ZERO, 0, 1, NULL, 0));
  REFUSED(uncopy_zx_vmo_seal(vmo));
  REFUSED(zx_vmar_map(zx_vmar_root_self(), how, 0, vmo, 0, 4096, &at));
  REFUSED(zx_object_set_property(vmo, ZX_PROP_NAME, "x", 1));
  REFUSED(zx_object_get_property(vmo, ZX_PROP_NAME, buffer, 64));
  REFUSED(zx_object_set_property(socket_ends[0], ZX_PROP_SOCKET_RX_THRESHOLD, &size, 8));
  REFUSED(zx_object_get_info(socket_ends[0], ZX_INFO_SOCKET, &info, sizeof(info), NULL, NULL));
  REFUSED(uncopy_zx_channel_to_fd(wired[0], &fd));
  REFUSED(uncopy_zx_poll_fd_create(event, ZX_EVENT_SIGNALED, &fd));
  REFUSED(uncopy_zx_handle_to_fd(file, &fd));
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    REFUSED(zx_object_get_info(all[i], ZX_INFO_HANDLE_BASIC, &basic, sizeof(basic), NULL, NULL));
    REFUSED(zx_object_get_info(all[i], ZX_INFO_HANDLE_COUNT, &count, sizeof(count), NULL, NULL));
    if (i > 1) REFUSED(zx_handle_duplicate(all[i], ZX_RIGHT_SAME_RIGHTS, &out));
    OK(zx_handle_check_valid(all[i]));
  }
  REFUSED(zx_handle_replace(vmo, ZX_RIGHT_SAME_RIGHTS, &out));
  OK(zx_channel_create(0, &new_ends[0], &new_ends[1]));
  REFUSED(zx_channel_write(new_ends[0], 0, NULL, 0, &file, 1));
  OK(zx_handle_close(event));
  OK(zx_handle_close(wired[0]));
  return failures - before;
}

/* A child changed and sealed the memory of its parent. */
static void a_child_is_refused_by_objects_of_its_parent(void) {
  char back[6];
  int fd, status = -1;
  OK(zx_channel_create(0, &channel[0], &channel[1]));
  OK(zx_channel_create(0, &wired[0], &wired[1]));
  OK(uncopy_zx_channel_to_fd(wired[1], &fd));
  OK(uncopy_zx_channel_from_fd(fd, &wired[1]));
  OK(zx_channel_write(wired[1], 0, "message", 7, NULL, 0));
  OK(zx_event_create(0, &event));
  OK(zx_eventpair_create(0, &pair[0], &pair[1]));
  OK(zx_port_create(0, &port));
  OK(zx_socket_create(0, &socket_ends[0], &socket_ends[1]));
  OK(zx_fifo_create(8, 8, 0, &fifo[0], &fifo[1]));
  OK(zx_vmo_create(4096, ZX_VMO_RESIZABLE, &vmo));
  OK(uncopy_zx_handle_from_fd(dup(1), &file));
  OK(zx_vmo_write(vmo, "parent", 0, 6));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(use_inherited_objects());
  }
  EQ(waitpid(child, &status, 0), child);
  EQ(status, 0);
  OK(zx_vmo_read(vmo, back, 0, 6));
  EQ(memcmp(back, "parent", 6), 0);
  OK(zx_vmo_write(vmo, "x", 0, 1));
  close_both(channel);
  close_both(wired);
  close_both(pair);
  close_both(socket_ends);
  close_both(fifo);
  OK(zx_handle_close(event));
  OK(zx_handle_close(port));
  OK(zx_handle_close(vmo));
  OK(zx_handle_close(file));
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
  RUN_UNLESS_EMULATED(a_child_is_refused_by_objects_of_its_parent);
  RUN(a_child_creates_objects);
  RUN(a_child_maps_memory);
  return failures != 0;
}
