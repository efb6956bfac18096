/* ZX_CHANNEL_WRITE_USE_IOVEC: one test for each rule. */
#include "check.h"

#define IOVEC ZX_CHANNEL_WRITE_USE_IOVEC

static char back[ZX_CHANNEL_MAX_MSG_BYTES];

static void read_back(zx_handle_t end, const void* expected, uint32_t size) {
  uint32_t actual = 0xdead;
  OK(zx_channel_read(end, 0, back, NULL, sizeof(back), 0, &actual, NULL));
  EQ(actual, size);
  EQ(memcmp(back, expected, size), 0);
}

static void parts_come_in_order_without_padding(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  const char text[] = "abcdefghij";
  zx_channel_iovec_t parts[4] = {
      {text, 3, 0}, {NULL, 0, 0}, {text + 9, 1, 0}, {text, 3, 0}};
  OK(zx_channel_write(ends[0], IOVEC, parts, 4, NULL, 0));
  read_back(ends[1], "abcjabc", 7);
  OK(zx_channel_write(ends[0], IOVEC, parts, 1, NULL, 0));
  read_back(ends[1], "abc", 3);
  OK(zx_channel_write(ends[0], IOVEC, NULL, 0, NULL, 0));
  read_back(ends[1], "", 0);
  close_both(ends);
}

static void counts_at_the_limits_of_each_way(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  static zx_channel_iovec_t parts[ZX_CHANNEL_MAX_MSG_IOVECS + 1];
  static char text[ZX_CHANNEL_MAX_MSG_IOVECS + 1];
  for (uint32_t i = 0; i <= ZX_CHANNEL_MAX_MSG_IOVECS; ++i) {
    text[i] = (char)(i * 31 + i / 255);
    parts[i].buffer = &text[i];
    parts[i].capacity = 1;
  }
  const uint32_t counts[] = {1, 15, 16, 17, 63, 64, 65, 1024, ZX_CHANNEL_MAX_MSG_IOVECS};
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
    OK(zx_channel_write(ends[0], IOVEC, parts, counts[i], NULL, 0));
    read_back(ends[1], text, counts[i]);
  }
  EQ(zx_channel_write(ends[0], IOVEC, parts, ZX_CHANNEL_MAX_MSG_IOVECS + 1, NULL, 0),
     ZX_ERR_OUT_OF_RANGE);
  /* Before the array is read. */
  EQ(zx_channel_write(ends[0], IOVEC, (void*)1, ZX_CHANNEL_MAX_MSG_IOVECS + 1, NULL, 0),
     ZX_ERR_OUT_OF_RANGE);
  EQ(zx_channel_write(ends[0], IOVEC, NULL, UINT32_MAX, NULL, 0), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void sums_at_the_limit_and_one_past(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  static char text[ZX_CHANNEL_MAX_MSG_BYTES];
  memset(text, 'z', sizeof(text));
  zx_channel_iovec_t parts[3] = {{text, 32768, 0}, {text, 32768, 0}, {text, 1, 0}};
  OK(zx_channel_write(ends[0], IOVEC, parts, 2, NULL, 0));
  read_back(ends[1], text, ZX_CHANNEL_MAX_MSG_BYTES);
  EQ(zx_channel_write(ends[0], IOVEC, parts, 3, NULL, 0), ZX_ERR_OUT_OF_RANGE);
  /* 32 bits are not enough for the sum. */
  parts[0].capacity = parts[1].capacity = UINT32_MAX;
  EQ(zx_channel_write(ends[0], IOVEC, parts, 2, NULL, 0), ZX_ERR_OUT_OF_RANGE);
  parts[0].capacity = UINT32_MAX;
  parts[1].capacity = 1;
  EQ(zx_channel_write(ends[0], IOVEC, parts, 2, NULL, 0), ZX_ERR_OUT_OF_RANGE);
  /* Handles count as in a linear write. */
  zx_handle_t handles[ZX_CHANNEL_MAX_MSG_HANDLES + 1] = {0};
  parts[0].capacity = 1;
  EQ(zx_channel_write(ends[0], IOVEC, parts, 1, handles, 65), ZX_ERR_OUT_OF_RANGE);
  close_both(ends);
}

static void reserved_must_be_zero(void) {
  zx_handle_t ends[2], event = new_event();
  new_channel(ends);
  zx_channel_iovec_t parts[2] = {{"ab", 2, 0}, {"cd", 2, 1}};
  EQ(zx_channel_write(ends[0], IOVEC, parts, 2, &event, 1), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(event));
  /* Before the sum. */
  parts[0].capacity = UINT32_MAX;
  EQ(zx_channel_write(ends[0], IOVEC, parts, 2, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void bad_parts_send_nothing(void) {
  zx_handle_t ends[2], event = new_event();
  new_channel(ends);
  zx_channel_iovec_t parts[3] = {{"ab", 2, 0}, {NULL, 1, 0}, {"cd", 2, 0}};
  EQ(zx_channel_write(ends[0], IOVEC, parts, 3, &event, 1), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(event));
  EQ(zx_channel_write(ends[0], IOVEC, (void*)1, 1, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write(ends[0], IOVEC, (void*)-1, 100, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write(ends[0], IOVEC, NULL, 1, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void unaligned_arrays_and_buffers_are_fine(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  char memory[2 * sizeof(zx_channel_iovec_t) + 1];
  char text[200];
  for (int i = 0; i < 200; ++i) text[i] = (char)i;
  zx_channel_iovec_t parts[2] = {{text + 1, 130, 0}, {text + 131, 69, 0}};
  memcpy(memory + 1, parts, sizeof(parts));
  OK(zx_channel_write(ends[0], IOVEC, memory + 1, 2, NULL, 0));
  read_back(ends[1], text + 1, 199);
  close_both(ends);
}

static void dispositions_go_with_iovecs(void) {
  zx_handle_t ends[2], event = new_event();
  new_channel(ends);
  zx_channel_iovec_t part = {"ab", 2, 0};
  zx_handle_disposition_t sent = {ZX_HANDLE_OP_DUPLICATE, event, ZX_OBJ_TYPE_EVENT,
                                  ZX_RIGHT_SAME_RIGHTS, 7};
  OK(zx_channel_write_etc(ends[0], IOVEC, &part, 1, &sent, 1));
  EQ(sent.result, 7);
  OK(zx_handle_close(event));
  zx_handle_t got;
  OK(zx_channel_read(ends[1], 0, back, &got, 2, 1, NULL, NULL));
  OK(zx_handle_close(got));
  close_both(ends);
}

/* uncopy_zx_channel_write_batch: the flat form. */
static void batches_are_several_messages(void) {
  zx_handle_t ends[2], events[3] = {new_event(), new_event(), new_event()};
  new_channel(ends);
  zx_channel_iovec_t parts[4] = {
      {"ab", 2, UNCOPY_ZX_BATCH(0, 1)},
      {"cd", 2, UNCOPY_ZX_BATCH(0, 0)},
      {NULL, 0, UNCOPY_ZX_BATCH(1, 0)},
      {"ef", 2, UNCOPY_ZX_BATCH(2, 2)},
  };
  uint32_t sent = 99, actual = 99;
  OK(uncopy_zx_channel_write_batch(ends[0], 0, parts, 4, events, 3, &sent));
  EQ(sent, 3);
  zx_handle_t got[2];
  OK(zx_channel_read(ends[1], 0, back, got, 10, 2, &actual, NULL));
  EQ(actual, 4);
  EQ(memcmp(back, "abcd", 4), 0);
  OK(zx_handle_close(got[0]));
  read_back(ends[1], "", 0);
  OK(zx_channel_read(ends[1], 0, back, got, 10, 2, &actual, NULL));
  EQ(actual, 2);
  OK(zx_handle_close_many(got, 2));
  /* A gap; handle counts with a wrong sum; a bad pointer in the second message. */
  events[0] = new_event();
  parts[0].reserved = UNCOPY_ZX_BATCH(1, 1);
  EQ(uncopy_zx_channel_write_batch(ends[0], 0, parts, 1, events, 1, &sent), ZX_ERR_INVALID_ARGS);
  EQ(sent, 0);
  CHECK(!is_open(events[0]));
  parts[0].reserved = UNCOPY_ZX_BATCH(0, 0);
  events[0] = new_event();
  EQ(uncopy_zx_channel_write_batch(ends[0], 0, parts, 1, events, 1, &sent), ZX_ERR_INVALID_ARGS);
  parts[1].buffer = (void*)1;
  parts[1].reserved = UNCOPY_ZX_BATCH(1, 0);
  EQ(uncopy_zx_channel_write_batch(ends[0], 0, parts, 2, NULL, 0, &sent), ZX_ERR_INVALID_ARGS);
  EQ(sent, 1);
  read_back(ends[1], "ab", 2);
  EQ(uncopy_zx_channel_write_batch(ends[0], 1, parts, 1, NULL, 0, &sent), ZX_ERR_INVALID_ARGS);
  EQ(uncopy_zx_channel_write_batch(ends[0], 0, (void*)1, 2, NULL, 0, &sent), ZX_ERR_INVALID_ARGS);
  EQ(uncopy_zx_channel_write_batch(ends[0], 0, (void*)1, 8193, NULL, 0, &sent),
     ZX_ERR_OUT_OF_RANGE);
  close_both(ends);
}

/* It was taken away before it was looked up: ZX_ERR_BAD_HANDLE. */
static void a_batch_does_not_carry_its_own_endpoint(void) {
  for (uint32_t before = 0; before < 2; ++before) {
    zx_handle_t ends[2];
    uint32_t sent = 99;
    new_channel(ends);
    zx_channel_iovec_t parts[2] = {{"ab", 2, UNCOPY_ZX_BATCH(0, 1 - before)},
                                   {"cd", 2, UNCOPY_ZX_BATCH(before, before)}};
    EQ(uncopy_zx_channel_write_batch(ends[0], 0, parts, 2, ends, 1, &sent), ZX_ERR_NOT_SUPPORTED);
    EQ(sent, before);
    CHECK(!is_open(ends[0]));
    if (before == 1) read_back(ends[1], "ab", 2);
    EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_PEER_CLOSED);
    OK(zx_handle_close(ends[1]));
  }
}

int main(void) {
  choose_mode();
  RUN(parts_come_in_order_without_padding);
  RUN(counts_at_the_limits_of_each_way);
  RUN(sums_at_the_limit_and_one_past);
  RUN(reserved_must_be_zero);
  RUN(bad_parts_send_nothing);
  RUN(unaligned_arrays_and_buffers_are_fine);
  RUN(dispositions_go_with_iovecs);
  RUN(batches_are_several_messages);
  RUN(a_batch_does_not_carry_its_own_endpoint);
  return failures != 0;
}
