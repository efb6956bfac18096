/* Bad pointers at every argument: the documented status, no crash, no leak. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Null, unaligned, near the end of memory, not canonical, in the kernel's range. */
static void* const bad[] = {
    NULL,
    (void*)1,
    (void*)-1,
    (void*)0xfffffffffffffff0,
    (void*)0x8000000000000000,
    (void*)0x0000900000000000,
    (void*)0xffff800000000000,
};
#define EACH_BAD(p) for (size_t i_ = 0; i_ < sizeof(bad) / sizeof(bad[0]); ++i_) for (void* p = bad[i_], *once_ = &once_; once_; once_ = NULL)

static char* read_only;  /* a page */
static char* tail;       /* the last 8 bytes before a page that may not be touched */

static void map(void) {
  read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* Not unmapped: another mapping could be placed there. */
  mprotect(two + 4096, 4096, PROT_NONE);
  tail = two + 4096 - 8;
}

static zx_handle_t ends[2];

static void writing_from_bad_pointers(void) {
  new_channel(ends);
  EACH_BAD(p) {
    EQ(zx_channel_write(ends[0], 0, p, 1, NULL, 0), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_write(ends[0], 0, p, 65536, NULL, 0), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_write(ends[0], 0, NULL, 0, p, 1), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_write(ends[0], 0, NULL, 0, p, 64), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_write_etc(ends[0], 0, NULL, 0, p, 2), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_write(ends[0], ZX_CHANNEL_WRITE_USE_IOVEC, p, 20, NULL, 0),
       ZX_ERR_INVALID_ARGS);
    zx_channel_iovec_t parts[2] = {{"a", 1, 0}, {p, 300, 0}};
    EQ(zx_channel_write(ends[0], ZX_CHANNEL_WRITE_USE_IOVEC, parts, 2, NULL, 0),
       ZX_ERR_INVALID_ARGS);
    /* An empty array is not read. */
    OK(zx_channel_write(ends[0], 0, p, 0, p, 0));
    OK(zx_channel_read(ends[1], 0, p, p, 0, 0, NULL, NULL));
  }
  for (uint32_t size = 9; size < 600; size += 13) {
    EQ(zx_channel_write(ends[0], 0, tail, size, NULL, 0), ZX_ERR_INVALID_ARGS);
  }
  EQ(zx_channel_write(ends[0], 0, NULL, 0, (void*)tail, 3), ZX_ERR_INVALID_ARGS);
  OK(zx_channel_write(ends[0], 0, tail, 8, NULL, 0));
  OK(zx_channel_write(ends[0], 0, read_only, 4096, NULL, 0));
  close_both(ends);
}

/* After a fault of a read nothing is left, and the other end sees that the handle is closed. */
static void fill(zx_handle_t* left) {
  zx_handle_t pair[2];
  OK(zx_eventpair_create(0, &pair[0], &pair[1]));
  OK(zx_channel_write(ends[0], 0, "0123456789", 10, &pair[0], 1));
  *left = pair[1];
}

static void lost(zx_handle_t left) {
  EQ(signals_of(left), ZX_EVENTPAIR_PEER_CLOSED);
  OK(zx_handle_close(left));
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
}

static void reading_to_bad_pointers(void) {
  new_channel(ends);
  char bytes[16];
  zx_handle_t handle, left;
  zx_handle_info_t info;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + 2; ++i) {
    void* p = i < sizeof(bad) / sizeof(bad[0]) ? bad[i] : i % 2 ? (void*)read_only : (void*)(tail + 6);
    fill(&left);
    EQ(zx_channel_read(ends[1], 0, p, &handle, 16, 1, NULL, NULL), ZX_ERR_INVALID_ARGS);
    lost(left);
    fill(&left);
    EQ(zx_channel_read(ends[1], 0, bytes, p, 16, 1, NULL, NULL), ZX_ERR_INVALID_ARGS);
    lost(left);
    fill(&left);
    EQ(zx_channel_read_etc(ends[1], 0, bytes, p, 16, 1, NULL, NULL), ZX_ERR_INVALID_ARGS);
    lost(left);
    if (p != NULL) {
      fill(&left);
      EQ(zx_channel_read(ends[1], 0, bytes, &handle, 16, 1, p, NULL), ZX_ERR_INVALID_ARGS);
      lost(left);
      fill(&left);
      EQ(zx_channel_read_etc(ends[1], 0, bytes, &info, 16, 1, NULL, p), ZX_ERR_INVALID_ARGS);
      lost(left);
    }
  }
  close_both(ends);
}

static void making_things_at_bad_pointers(void) {
  zx_handle_t other, event = new_event();
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + 1; ++i) {
    void* p = i < sizeof(bad) / sizeof(bad[0]) ? bad[i] : (void*)read_only;
    EQ(zx_channel_create(0, p, &other), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_create(0, &other, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_event_create(0, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_eventpair_create(0, &other, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_port_create(0, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_fifo_create(1, 1, 0, p, &other), ZX_ERR_INVALID_ARGS);
    EQ(zx_socket_create(0, p, &other), ZX_ERR_INVALID_ARGS);
    EQ(zx_vmo_create(1, 0, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_handle_duplicate(event, ZX_RIGHT_SAME_RIGHTS, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_handle_replace(new_event(), ZX_RIGHT_SAME_RIGHTS, p), ZX_ERR_INVALID_ARGS);
    EQ(uncopy_zx_get_counters(p), ZX_ERR_INVALID_ARGS);
    EQ(uncopy_zx_poll_fd_create(event, 1, p), ZX_ERR_INVALID_ARGS);
  }
  EQ(zx_handle_close_many((void*)1, 3), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(event));
}

static void waiting_and_asking_with_bad_pointers(void) {
  zx_handle_t event = new_event(), port, fifo[2], socket[2], vmo;
  OK(zx_port_create(0, &port));
  OK(zx_fifo_create(4, 4, 0, &fifo[0], &fifo[1]));
  OK(zx_socket_create(0, &socket[0], &socket[1]));
  OK(zx_vmo_create(4096, 0, &vmo));
  EQ(zx_port_queue(port, NULL), ZX_ERR_INVALID_ARGS);
  EACH_BAD(p) {
    zx_port_packet_t packet = {0};
    if (p != NULL) {
      EQ(zx_object_wait_one(event, 1, 0, p), ZX_ERR_INVALID_ARGS);
      EQ(zx_object_get_info(event, ZX_INFO_HANDLE_BASIC, NULL, 0, p, NULL), ZX_ERR_INVALID_ARGS);
      EQ(zx_object_get_info(event, ZX_INFO_HANDLE_BASIC, NULL, 0, NULL, p), ZX_ERR_INVALID_ARGS);
    }
    EQ(zx_object_get_info(event, ZX_INFO_HANDLE_BASIC, p, 32, NULL, NULL), ZX_ERR_INVALID_ARGS);
    EQ(zx_object_wait_many(p, 1, 0), ZX_ERR_INVALID_ARGS);
    EQ(zx_port_queue(port, p), ZX_ERR_INVALID_ARGS);
    OK(zx_port_queue(port, &packet));
    EQ(zx_port_wait(port, 0, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
    EQ(zx_fifo_write(fifo[0], 4, p, 1, NULL), ZX_ERR_INVALID_ARGS);
    OK(zx_fifo_write(fifo[0], 4, "abcd", 1, NULL));
    EQ(zx_fifo_read(fifo[1], 4, p, 1, NULL), ZX_ERR_INVALID_ARGS);
    EQ(zx_socket_write(socket[0], 0, p, 5, NULL), ZX_ERR_INVALID_ARGS);
    OK(zx_socket_write(socket[0], 0, "abcde", 5, NULL));
    EQ(zx_socket_read(socket[1], 0, p, 5, NULL), ZX_ERR_INVALID_ARGS);
    EQ(zx_vmo_write(vmo, p, 0, 9), ZX_ERR_INVALID_ARGS);
    EQ(zx_vmo_read(vmo, p, 0, 9), ZX_ERR_INVALID_ARGS);
    EQ(zx_vmo_get_size(vmo, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_object_set_property(vmo, ZX_PROP_NAME, p, 3), ZX_ERR_INVALID_ARGS);
    EQ(zx_object_get_property(vmo, ZX_PROP_NAME, p, 32), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_call(event, 0, 0, p, NULL, NULL), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_call_etc(event, 0, 0, p, NULL, NULL), ZX_ERR_INVALID_ARGS);
  }
  /* An array that can be read and not written. */
  EQ(zx_object_wait_many((void*)read_only, 0, 0), ZX_ERR_TIMED_OUT);
  close_both(fifo);
  close_both(socket);
  OK(zx_handle_close(vmo));
  OK(zx_handle_close(port));
  OK(zx_handle_close(event));
}

/* Counts are written last: the operation has been done. */
static void counting_at_bad_pointers(void) {
  zx_handle_t fifo[2], socket[2];
  char bytes[8];
  new_channel(ends);
  OK(zx_fifo_create(4, 4, 0, &fifo[0], &fifo[1]));
  OK(zx_socket_create(0, &socket[0], &socket[1]));
  EACH_BAD(p) {
    zx_channel_iovec_t part = {"a", 1, UNCOPY_ZX_BATCH(0, 0)};
    EQ(uncopy_zx_channel_write_batch(ends[0], 0, p, 1, NULL, 0, NULL), ZX_ERR_INVALID_ARGS);
    EQ(uncopy_zx_channel_write_batch(ends[0], 0, &part, 1, p, 1, NULL), ZX_ERR_INVALID_ARGS);
    EQ(zx_handle_close_many(p, 2), ZX_ERR_INVALID_ARGS);
    OK(zx_handle_close_many(p, 0));
    if (p == NULL) continue;
    EQ(zx_fifo_write(fifo[0], 4, "abcd", 1, p), ZX_ERR_INVALID_ARGS);
    OK(zx_fifo_read(fifo[1], 4, bytes, 1, NULL));
    OK(zx_fifo_write(fifo[0], 4, "abcd", 1, NULL));
    EQ(zx_fifo_read(fifo[1], 4, bytes, 1, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_fifo_read(fifo[1], 4, bytes, 1, NULL), ZX_ERR_SHOULD_WAIT);
    EQ(zx_socket_write(socket[0], 0, "abcd", 4, p), ZX_ERR_INVALID_ARGS);
    OK(zx_socket_read(socket[1], 0, bytes, 4, NULL));
    OK(zx_socket_write(socket[0], 0, "abcd", 4, NULL));
    EQ(zx_socket_read(socket[1], 0, bytes, 4, p), ZX_ERR_INVALID_ARGS);
    EQ(zx_socket_read(socket[1], 0, bytes, 4, NULL), ZX_ERR_SHOULD_WAIT);
    EQ(uncopy_zx_channel_write_batch(ends[0], 0, &part, 1, NULL, 0, p), ZX_ERR_INVALID_ARGS);
    OK(zx_channel_read(ends[1], 0, bytes, NULL, 1, 0, NULL, NULL));
  }
  close_both(fifo);
  close_both(socket);
  close_both(ends);
}

static void* answer_with_a_handle(void* left) {
  char message[16];
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
  OK(zx_channel_read(ends[1], 0, message, NULL, sizeof(message), 0, NULL, NULL));
  zx_handle_t pair[2];
  OK(zx_eventpair_create(0, &pair[0], &pair[1]));
  *(zx_handle_t*)left = pair[1];
  OK(zx_channel_write(ends[1], 0, message, sizeof(message), &pair[0], 1));
  return NULL;
}

static void calling_with_bad_pointers(void) {
  new_channel(ends);
  EACH_BAD(p) {
    char request[16] = "????question", reply[16];
    zx_handle_t got;
    zx_handle_info_t info;
    uint32_t bytes, handles;
    zx_channel_call_args_t args = {p, NULL, reply, &got, 16, 0, 16, 1};
    zx_channel_call_etc_args_t etc = {p, NULL, reply, &info, 16, 0, 16, 1};
    EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_call_etc(ends[0], 0, 0, &etc, &bytes, &handles), ZX_ERR_INVALID_ARGS);
    args.wr_bytes = etc.wr_bytes = request;
    args.wr_handles = p;
    etc.wr_handles = p;
    args.wr_num_handles = etc.wr_num_handles = 1;
    EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
    EQ(zx_channel_call_etc(ends[0], 0, 0, &etc, &bytes, &handles), ZX_ERR_INVALID_ARGS);
    args.wr_num_handles = etc.wr_num_handles = 0;
    for (int where = 0; where < 4; ++where) {
      uint32_t* actual_bytes = where == 0 ? p : &bytes;
      uint32_t* actual_handles = where == 1 ? p : &handles;
      args.rd_bytes = etc.rd_bytes = where == 2 ? p : reply;
      args.rd_handles = where == 3 ? p : &got;
      etc.rd_handles = where == 3 ? p : &info;
      zx_handle_t left = ZX_HANDLE_INVALID;
      pthread_t thread;
      pthread_create(&thread, NULL, answer_with_a_handle, &left);
      EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, actual_bytes, actual_handles),
         ZX_ERR_INVALID_ARGS);
      pthread_join(thread, NULL);
      lost(left);
      pthread_create(&thread, NULL, answer_with_a_handle, &left);
      EQ(zx_channel_call_etc(ends[0], 0, ZX_TIME_INFINITE, &etc, actual_bytes, actual_handles),
         ZX_ERR_INVALID_ARGS);
      pthread_join(thread, NULL);
      lost(left);
    }
  }
  close_both(ends);
}

static void bridging_with_bad_pointers(void) {
  EACH_BAD(p) {
    int fd = -1;
    new_channel(ends);
    OK(uncopy_zx_channel_to_fd(ends[0], &fd));
    EQ(uncopy_zx_channel_from_fd(fd, p), ZX_ERR_INVALID_ARGS);
    OK(zx_object_wait_one(ends[1], ZX_CHANNEL_PEER_CLOSED, ZX_TIME_INFINITE, NULL));
    OK(zx_handle_close(ends[1]));
    new_channel(ends);
    EQ(uncopy_zx_channel_to_fd(ends[0], p), ZX_ERR_INVALID_ARGS);
    OK(zx_object_wait_one(ends[1], ZX_CHANNEL_PEER_CLOSED, ZX_TIME_INFINITE, NULL));
    CHECK(!is_open(ends[0]));
    OK(zx_handle_close(ends[1]));
  }
}

static void many_faulting_rounds_leave_nothing(void) {
  int is_slow = getenv("UNCOPY_ZX_TEST_KERNEL") != NULL || getenv("UNCOPY_ZX_TEST_SHORT") != NULL;
  int rounds = is_slow ? 4096 : 263168;
  new_channel(ends);
  char bytes[4];
  zx_handle_t first = new_event();
  for (int i = 0; i < rounds; ++i) {
    zx_handle_t copy;
    OK(zx_handle_duplicate(first, ZX_RIGHT_SAME_RIGHTS, &copy));
    OK(zx_channel_write(ends[0], 0, "abc", 3, &copy, 1));
    EQ(zx_channel_read(ends[1], 0, bytes, (void*)1, 4, 1, NULL, NULL), ZX_ERR_INVALID_ARGS);
    if (failures != 0) break;
  }
  OK(zx_handle_close(first));
  close_both(ends);
}

static void pages_behind_the_end_of_a_file(void) {
  new_channel(ends);
  char name[] = "/tmp/uncopy-zx-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0 && unlink(name) == 0);
  /* Mapped beyond the end of the file: SIGBUS. */
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED);
  EQ(zx_channel_write(ends[0], 0, page, 1, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write(ends[0], 0, page, 4096, NULL, 0), ZX_ERR_INVALID_ARGS);
  OK(zx_channel_write(ends[0], 0, "0123456789", 10, NULL, 0));
  EQ(zx_channel_read(ends[1], 0, page, NULL, 4096, 0, NULL, NULL), ZX_ERR_INVALID_ARGS);
  EQ(ftruncate(fd, 4096), 0);
  OK(zx_channel_write(ends[0], 0, page, 4096, NULL, 0));
  munmap(page, 4096);
  close(fd);
  close_both(ends);
}

static void* fault_in_a_thread(void* arg) {
  for (int i = 0; i < 2000; ++i) {
    EQ(zx_channel_write(ends[0], 0, (void*)1, 1000, NULL, 0), ZX_ERR_INVALID_ARGS);
  }
  return arg;
}

static void several_threads_fault_at_once(void) {
  new_channel(ends);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, fault_in_a_thread, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  close_both(ends);
}

int main(void) {
  choose_mode();
  map();
  RUN(writing_from_bad_pointers);
  RUN(reading_to_bad_pointers);
  RUN(making_things_at_bad_pointers);
  RUN(waiting_and_asking_with_bad_pointers);
  RUN(counting_at_bad_pointers);
  RUN(calling_with_bad_pointers);
  RUN(bridging_with_bad_pointers);
  RUN(pages_behind_the_end_of_a_file);
  RUN(many_faulting_rounds_leave_nothing);
  RUN(several_threads_fault_at_once);
  return failures != 0;
}
