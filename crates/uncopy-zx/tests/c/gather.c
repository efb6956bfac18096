/* Messages over a socket: regions that the kernel reads where they lie, and whose addresses it checks. */
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

#define IOVEC ZX_CHANNEL_WRITE_USE_IOVEC
#define MAX_REGIONS ZX_CHANNEL_MAX_MSG_IOVECS
#define MAX_BYTES ZX_CHANNEL_MAX_MSG_BYTES
/* Size of regions that are not copied by the library. */
#define LARGE 4096

static zx_handle_t ends[2];
static char text[MAX_BYTES];
static char back[MAX_BYTES];
static zx_channel_iovec_t regions[MAX_REGIONS];
static char* hole; /* 16 pages that may not be touched */

static void new_socket(void) {
  int fd = -1;
  OK(zx_channel_create(0, &ends[0], &ends[1]));
  OK(uncopy_zx_channel_to_fd(ends[1], &fd));
  OK(uncopy_zx_channel_from_fd(fd, &ends[1]));
}

static uint64_t faults(void) {
  uncopy_zx_counters_t counters;
  OK(uncopy_zx_get_counters(&counters));
  return counters.faults;
}

/* Divides the text into regions of almost the same length; some are empty if there are more. */
static void divide(uint32_t bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t begin = (uint64_t)bytes * i / count, end = (uint64_t)bytes * (i + 1) / count;
    regions[i] = (zx_channel_iovec_t){text + begin, (uint32_t)(end - begin), 0};
  }
}

/* Reads a message and compares everything behind the first bytes. */
static void read_back(uint32_t size, uint32_t skipped, uint32_t handles) {
  uint32_t actual = 0, actual_handles = 0;
  zx_handle_t got[2] = {ZX_HANDLE_INVALID, ZX_HANDLE_INVALID};
  OK(zx_channel_read(ends[1], 0, back, got, sizeof(back), 2, &actual, &actual_handles));
  EQ(actual, size);
  EQ(actual_handles, handles);
  EQ(memcmp(back + skipped, text + skipped, size - skipped), 0);
  if (handles > 0) OK(zx_handle_close(got[0]));
}

static zx_status_t call(uint32_t count, zx_handle_t* handle) {
  uint32_t bytes, handles;
  zx_channel_call_args_t args = {regions, handle, back, NULL, count, handle != NULL, sizeof(back), 0};
  return zx_channel_call(ends[0], IOVEC, 0, &args, &bytes, &handles);
}

static zx_status_t call_etc(uint32_t count, zx_handle_disposition_t* sent) {
  uint32_t bytes, handles;
  zx_channel_call_etc_args_t args = {regions, sent, back, NULL, count, sent != NULL, sizeof(back), 0};
  return zx_channel_call_etc(ends[0], IOVEC, 0, &args, &bytes, &handles);
}

static zx_handle_disposition_t moving(zx_handle_t handle) {
  return (zx_handle_disposition_t){ZX_HANDLE_OP_MOVE, handle, ZX_OBJ_TYPE_NONE, ZX_RIGHT_SAME_RIGHTS, 7};
}

/* The system calls of this test are compared with a table: tests/c.rs. */
static void every_call_sends_regions_of_any_number_and_size(void) {
  static const uint32_t counts[] = {1, 16, 64, 1024, 1025, MAX_REGIONS};
  static const uint32_t sizes[] = {256, 4096, MAX_BYTES};
  new_socket();
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 6; ++j) {
      uint32_t size = sizes[i], count = counts[j];
      divide(size, count);
      OK(zx_channel_write(ends[0], IOVEC, regions, count, NULL, 0));
      read_back(size, 0, 0);
      zx_handle_disposition_t sent = moving(new_event());
      OK(zx_channel_write_etc(ends[0], IOVEC, regions, count, &sent, 1));
      read_back(size, 0, 1);
      EQ(sent.result, 7);
      EQ(call(count, NULL), ZX_ERR_TIMED_OUT);
      read_back(size, 4, 0);
      sent = moving(new_event());
      EQ(call_etc(count, &sent), ZX_ERR_TIMED_OUT);
      read_back(size, 4, 1);
    }
  }
  close_both(ends);
}

static void nothing_was_sent(void) {
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
}

/* A large region in a message of some, each time another one. */
static void the_kernel_finds_a_bad_region_and_the_next_message_is_whole(void) {
  void* const bad[] = {NULL, (void*)1, hole, (void*)0x8000000000000000, (void*)0xffff800000000000};
  new_socket();
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    for (uint32_t which = 0; which < 8; ++which) {
      uint64_t before = faults();
      divide(8 * LARGE, 8);
      regions[which].buffer = bad[i];
      EQ(zx_channel_write(ends[0], IOVEC, regions, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
      EQ(zx_channel_write_etc(ends[0], IOVEC, regions, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
      EQ(call(8, NULL), ZX_ERR_INVALID_ARGS);
      EQ(call_etc(8, NULL), ZX_ERR_INVALID_ARGS);
      EQ(zx_channel_write(ends[0], 0, bad[i], 8 * LARGE, NULL, 0), ZX_ERR_INVALID_ARGS);
      /* The library itself did not touch it. */
      EQ(faults(), before);
      nothing_was_sent();
      divide(8 * LARGE, 8);
      OK(zx_channel_write(ends[0], IOVEC, regions, 8, NULL, 0));
      read_back(8 * LARGE, 0, 0);
    }
  }
  close_both(ends);
}

/* Good up to the last page, which is not there; the handle is consumed. */
static void a_region_that_is_partly_there_consumes_the_handle(void) {
  char* pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(pages + 2 * 4096, 4096, PROT_NONE);
  new_socket();
  for (uint32_t length = 2 * 4096 - 2; length < 2 * 4096 + 3; ++length) {
    zx_status_t expected = length > 2 * 4096 ? ZX_ERR_INVALID_ARGS : ZX_OK;
    zx_handle_t pair[2], got;
    for (int what = 0; what < 4; ++what) {
      OK(zx_eventpair_create(0, &pair[0], &pair[1]));
      regions[0] = (zx_channel_iovec_t){pages, length, 0};
      zx_handle_disposition_t sent = moving(pair[0]);
      zx_status_t timed_out = expected == ZX_OK ? ZX_ERR_TIMED_OUT : expected;
      if (what == 0) EQ(zx_channel_write(ends[0], IOVEC, regions, 1, pair, 1), expected);
      if (what == 1) EQ(zx_channel_write_etc(ends[0], IOVEC, regions, 1, &sent, 1), expected);
      if (what == 2) EQ(call(1, pair), timed_out);
      if (what == 3) EQ(call_etc(1, &sent), timed_out);
      EQ(sent.result, 7);
      CHECK(!is_open(pair[0]));
      if (expected == ZX_OK) {
        OK(zx_channel_read(ends[1], 0, back, &got, sizeof(back), 1, NULL, NULL));
        OK(zx_handle_close(got));
      } else {
        nothing_was_sent();
      }
      OK(zx_object_wait_one(pair[1], ZX_EVENTPAIR_PEER_CLOSED, ZX_TIME_INFINITE, NULL));
      OK(zx_handle_close(pair[1]));
    }
  }
  close_both(ends);
  munmap(pages, 3 * 4096);
}

/* Regions come before handles, room and peer, as in Zircon. */
static void a_bad_region_comes_first(void) {
  zx_handle_t none = ZX_HANDLE_INVALID;
  new_socket();
  divide(8 * LARGE, 8);
  regions[7].buffer = hole;
  zx_handle_disposition_t sent = moving(none);
  EQ(zx_channel_write(ends[0], IOVEC, regions, 8, &none, 1), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write_etc(ends[0], IOVEC, regions, 8, &sent, 1), ZX_ERR_INVALID_ARGS);
  EQ(call(8, &none), ZX_ERR_INVALID_ARGS);
  EQ(call_etc(8, &sent), ZX_ERR_INVALID_ARGS);
  /* Not tried, so that it has no result. */
  EQ(sent.result, 7);
  EQ(zx_channel_write(ends[0], 0, text, 9, &none, 1), ZX_ERR_BAD_HANDLE);
  zx_status_t status;
  while ((status = zx_channel_write(ends[0], 0, text, MAX_BYTES, NULL, 0)) == ZX_OK) {}
  EQ(status, ZX_ERR_SHOULD_WAIT);
  EQ(zx_channel_write(ends[0], IOVEC, regions, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(call(8, NULL), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(ends[1]));
  EQ(zx_channel_write(ends[0], IOVEC, regions, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(call_etc(8, NULL), ZX_ERR_INVALID_ARGS);
  divide(8 * LARGE, 8);
  EQ(zx_channel_write(ends[0], IOVEC, regions, 8, NULL, 0), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(ends[0]));
}

/* The message in front of it is sent, none behind it, and all handles are consumed. */
static void a_batch_ends_at_a_bad_region(void) {
  for (int handles = 0; handles < 2; ++handles) {
    zx_handle_t events[2] = {new_event(), new_event()};
    new_socket();
    divide(4 * LARGE, 4);
    for (uint32_t i = 0; i < 4; ++i) regions[i].reserved = UNCOPY_ZX_BATCH(i, 0);
    if (handles != 0) {
      regions[0].reserved = UNCOPY_ZX_BATCH(0, 1);
      regions[3].reserved = UNCOPY_ZX_BATCH(3, 1);
    }
    regions[2].buffer = hole;
    uint32_t sent = 99, actual = 0;
    EQ(uncopy_zx_channel_write_batch(ends[0], 0, regions, 4, events, handles * 2, &sent),
       ZX_ERR_INVALID_ARGS);
    EQ(sent, 2);
    for (uint32_t i = 0; i < 2; ++i) {
      zx_handle_t got = ZX_HANDLE_INVALID;
      OK(zx_channel_read(ends[1], 0, back, &got, sizeof(back), 1, &actual, NULL));
      EQ(actual, LARGE);
      EQ(memcmp(back, text + i * LARGE, LARGE), 0);
      if (got != ZX_HANDLE_INVALID) OK(zx_handle_close(got));
    }
    nothing_was_sent();
    CHECK(is_open(events[0]) == (handles == 0) && is_open(events[1]) == (handles == 0));
    if (handles == 0) OK(zx_handle_close_many(events, 2));
    close_both(ends);
  }
}

static volatile int is_over;

static void* change_protection(void* page) {
  while (!is_over) {
    mprotect(page, LARGE, PROT_NONE);
    mprotect(page, LARGE, PROT_READ | PROT_WRITE);
  }
  return NULL;
}

/* Memory that comes and goes: each message is whole, or not there. */
static void memory_that_goes_meanwhile_sends_whole_messages_or_none(void) {
  int rounds = getenv("UNCOPY_ZX_TEST_SHORT") != NULL ? 100 : 3000;
  char* page = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, text + LARGE, LARGE);
  new_socket();
  pthread_t thread;
  is_over = 0;
  pthread_create(&thread, NULL, change_protection, page);
  for (int i = 0; i < rounds && failures == 0; ++i) {
    divide(3 * LARGE, 3);
    regions[1].buffer = page;
    zx_status_t status = zx_channel_write(ends[0], IOVEC, regions, 3, NULL, 0);
    if (status == ZX_OK) {
      read_back(3 * LARGE, 0, 0);
    } else {
      EQ(status, ZX_ERR_INVALID_ARGS);
      nothing_was_sent();
    }
  }
  is_over = 1;
  pthread_join(thread, NULL);
  close_both(ends);
  munmap(page, LARGE);
}

int main(void) {
  choose_mode();
  for (uint32_t i = 0; i < MAX_BYTES; ++i) text[i] = (char)(i * 7 + i / 251);
  hole = mmap(NULL, MAX_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RUN(every_call_sends_regions_of_any_number_and_size);
  if (getenv("UNCOPY_ZX_TEST_TRACED") != NULL) return failures != 0;
  RUN(the_kernel_finds_a_bad_region_and_the_next_message_is_whole);
  RUN(a_region_that_is_partly_there_consumes_the_handle);
  RUN(a_bad_region_comes_first);
  RUN(a_batch_ends_at_a_bad_region);
  RUN(memory_that_goes_meanwhile_sends_whole_messages_or_none);
  return failures != 0;
}
