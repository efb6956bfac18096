/* zx_channel_create, _read, _write: each rule, the limits and one past them. */
#include "check.h"

static void creates_with_default_rights(void) {
  zx_handle_t ends[2];
  EQ(zx_channel_create(1, &ends[0], &ends[1]), ZX_ERR_INVALID_ARGS);
  new_channel(ends);
  EQ(ends[0] & ZX_HANDLE_FIXED_BITS_MASK, 3);
  EQ(ends[1] & ZX_HANDLE_FIXED_BITS_MASK, 3);
  zx_info_handle_basic_t info[2];
  size_t actual = 9, avail = 9;
  for (int i = 0; i < 2; ++i) {
    OK(zx_object_get_info(ends[i], ZX_INFO_HANDLE_BASIC, &info[i], sizeof(info[i]), &actual,
                          &avail));
    EQ(info[i].rights, ZX_DEFAULT_CHANNEL_RIGHTS);
    EQ(info[i].type, ZX_OBJ_TYPE_CHANNEL);
    EQ(actual, 1);
    EQ(avail, 1);
  }
  if (is_local()) EQ(info[0].koid, info[1].related_koid);
  if (is_local()) EQ(info[1].koid, info[0].related_koid);
  CHECK(info[0].koid != info[1].koid);
  close_both(ends);
}

static void signals_follow_the_queue_and_the_peer(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  EQ(signals_of(ends[0]), ZX_CHANNEL_WRITABLE);
  EQ(signals_of(ends[1]), ZX_CHANNEL_WRITABLE);
  OK(zx_channel_write(ends[0], 0, "x", 1, NULL, 0));
  EQ(signals_of(ends[1]), ZX_CHANNEL_WRITABLE | ZX_CHANNEL_READABLE);
  OK(zx_channel_write(ends[0], 0, NULL, 0, NULL, 0));
  OK(zx_handle_close(ends[0]));
  EQ(signals_of(ends[1]), ZX_CHANNEL_PEER_CLOSED | ZX_CHANNEL_READABLE);
  char byte;
  uint32_t bytes = 9, handles = 9;
  OK(zx_channel_read(ends[1], 0, &byte, NULL, 1, 0, &bytes, &handles));
  EQ(bytes, 1);
  EQ(handles, 0);
  OK(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, &bytes, NULL));
  EQ(bytes, 0);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_PEER_CLOSED);
  EQ(zx_channel_write(ends[1], 0, "x", 1, NULL, 0), ZX_ERR_PEER_CLOSED);
  EQ(signals_of(ends[1]), ZX_CHANNEL_PEER_CLOSED);
  OK(zx_handle_close(ends[1]));
}

static void read_checks_in_order(void) {
  zx_handle_t ends[2], event = new_event(), weak;
  new_channel(ends);
  EQ(zx_channel_read(ZX_HANDLE_INVALID, 8, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_BAD_HANDLE);
  EQ(zx_channel_read(event, 8, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_WRONG_TYPE);
  OK(zx_handle_replace(ends[0], ZX_RIGHT_WRITE | ZX_RIGHT_WAIT, &weak));
  EQ(zx_channel_read(weak, 8, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_ACCESS_DENIED);
  EQ(zx_channel_read(ends[1], 8, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  EQ(zx_channel_read(ends[0], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_BAD_HANDLE);
  OK(zx_handle_close(weak));
  OK(zx_handle_close(ends[1]));
  OK(zx_handle_close(event));
}

static void write_checks_in_order(void) {
  zx_handle_t ends[2], weak, event = new_event();
  new_channel(ends);
  EQ(zx_channel_write(ZX_HANDLE_INVALID, 1, NULL, 0, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write(ZX_HANDLE_INVALID, 0, NULL, 70000, NULL, 0), ZX_ERR_BAD_HANDLE);
  EQ(zx_channel_write(event, 0, NULL, 70000, NULL, 0), ZX_ERR_WRONG_TYPE);
  OK(zx_handle_replace(ends[0], ZX_RIGHT_READ, &weak));
  EQ(zx_channel_write(weak, 0, NULL, 70000, NULL, 0), ZX_ERR_ACCESS_DENIED);
  zx_handle_t none[1] = {ZX_HANDLE_INVALID};
  OK(zx_handle_close(weak));
  /* Sizes come before handles, handles before the peer. */
  EQ(zx_channel_write(ends[1], 0, NULL, 70000, none, 1), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_channel_write(ends[1], 0, (void*)1, 4, none, 1), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_write(ends[1], 0, "x", 1, none, 1), ZX_ERR_BAD_HANDLE);
  EQ(zx_channel_write(ends[1], 0, "x", 1, NULL, 0), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(ends[1]));
  OK(zx_handle_close(event));
}

static void sizes_at_the_limits_and_one_past(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  uint8_t* bytes = malloc(ZX_CHANNEL_MAX_MSG_BYTES + 1);
  uint8_t* back = malloc(ZX_CHANNEL_MAX_MSG_BYTES + 1);
  for (uint32_t i = 0; i <= ZX_CHANNEL_MAX_MSG_BYTES; ++i) bytes[i] = (uint8_t)(i * 7 + i / 251);
  EQ(zx_channel_write(ends[0], 0, bytes, ZX_CHANNEL_MAX_MSG_BYTES + 1, NULL, 0),
     ZX_ERR_OUT_OF_RANGE);
  for (uint32_t size = 0; size <= ZX_CHANNEL_MAX_MSG_BYTES; size = size < 300 ? size + 1 : size * 2) {
    uint32_t rounded = size > 60000 ? ZX_CHANNEL_MAX_MSG_BYTES : size, actual = 0;
    OK(zx_channel_write(ends[0], 0, bytes, rounded, NULL, 0));
    memset(back, 0xee, rounded + 1);
    OK(zx_channel_read(ends[1], 0, back, NULL, rounded, 0, &actual, NULL));
    EQ(actual, rounded);
    EQ(memcmp(back, bytes, rounded), 0);
    EQ(back[rounded], 0xee);
  }
  OK(zx_channel_write(ends[0], 0, bytes, ZX_CHANNEL_MAX_MSG_BYTES, NULL, 0));
  zx_handle_t handles[ZX_CHANNEL_MAX_MSG_HANDLES + 1];
  for (uint32_t i = 0; i < ZX_CHANNEL_MAX_MSG_HANDLES + 1; ++i) handles[i] = new_event();
  EQ(zx_channel_write(ends[0], 0, NULL, 0, handles, ZX_CHANNEL_MAX_MSG_HANDLES + 1),
     ZX_ERR_OUT_OF_RANGE);
  for (uint32_t i = 0; i < ZX_CHANNEL_MAX_MSG_HANDLES + 1; ++i) CHECK(!is_open(handles[i]));
  for (uint32_t i = 0; i < ZX_CHANNEL_MAX_MSG_HANDLES; ++i) handles[i] = new_event();
  OK(zx_channel_write(ends[0], 0, NULL, 0, handles, ZX_CHANNEL_MAX_MSG_HANDLES));
  close_both(ends);
  free(bytes);
  free(back);
}

static void a_message_that_does_not_fit_stays_unless_it_may_be_dropped(void) {
  zx_handle_t ends[2], event = new_event();
  new_channel(ends);
  OK(zx_channel_write(ends[0], 0, "hello", 5, &event, 1));
  char bytes[8];
  zx_handle_t handle = 0;
  uint32_t num_bytes = 99, num_handles = 99;
  EQ(zx_channel_read(ends[1], 0, bytes, NULL, 4, 1, &num_bytes, &num_handles),
     ZX_ERR_BUFFER_TOO_SMALL);
  EQ(num_bytes, 5);
  EQ(num_handles, 1);
  num_handles = 99;
  EQ(zx_channel_read(ends[1], 0, bytes, NULL, 5, 0, NULL, &num_handles), ZX_ERR_BUFFER_TOO_SMALL);
  EQ(num_handles, 1);
  OK(zx_channel_read(ends[1], 0, bytes, &handle, 8, 1, &num_bytes, NULL));
  EQ(memcmp(bytes, "hello", 5), 0);
  OK(zx_channel_write(ends[0], 0, "hello", 5, &handle, 1));
  EQ(zx_channel_read(ends[1], ZX_CHANNEL_READ_MAY_DISCARD, bytes, NULL, 0, 0, &num_bytes, NULL),
     ZX_ERR_BUFFER_TOO_SMALL);
  EQ(num_bytes, 5);
  EQ(zx_channel_read(ends[1], 0, bytes, NULL, 8, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void handles_arrive_with_their_objects_and_rights(void) {
  zx_handle_t ends[2], event = new_event(), weak;
  new_channel(ends);
  zx_koid_t koid = koid_of(event);
  OK(zx_handle_duplicate(event, ZX_RIGHT_TRANSFER | ZX_RIGHT_WAIT, &weak));
  zx_handle_t sent[2] = {event, weak};
  OK(zx_channel_write(ends[0], 0, NULL, 0, sent, 2));
  CHECK(!is_open(event) && !is_open(weak));
  zx_handle_info_t got[2];
  uint32_t actual = 0;
  OK(zx_channel_read_etc(ends[1], 0, NULL, got, 0, 2, NULL, &actual));
  EQ(actual, 2);
  EQ(got[0].type, ZX_OBJ_TYPE_EVENT);
  EQ(got[0].rights, ZX_DEFAULT_EVENT_RIGHTS);
  EQ(got[1].rights, ZX_RIGHT_TRANSFER | ZX_RIGHT_WAIT);
  EQ(got[0].unused, 0);
  if (is_local()) EQ(koid_of(got[0].handle), koid);
  if (is_local()) EQ(koid_of(got[1].handle), koid);
  OK(zx_handle_close(got[0].handle));
  OK(zx_handle_close(got[1].handle));
  close_both(ends);
}

static void handles_are_consumed_on_every_failure(void) {
  zx_handle_t ends[2], other[2], event, fixed;
  new_channel(ends);
  new_channel(other);
  /* Another option; a bad channel; a channel that may not be written to. */
  event = new_event();
  EQ(zx_channel_write(ends[0], 1, NULL, 0, &event, 1), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(event));
  event = new_event();
  EQ(zx_channel_write(ZX_HANDLE_INVALID, 0, NULL, 0, &event, 1), ZX_ERR_BAD_HANDLE);
  CHECK(!is_open(event));
  event = new_event();
  EQ(zx_channel_write(ends[0], 0, NULL, 65537, &event, 1), ZX_ERR_OUT_OF_RANGE);
  CHECK(!is_open(event));
  event = new_event();
  EQ(zx_channel_write(ends[0], 0, (void*)1, 1, &event, 1), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(event));
  /* A handle that may not be sent, one that is sent twice, and an invalid one: the first error counts. */
  event = new_event();
  OK(zx_handle_replace(new_event(), ZX_RIGHT_WAIT, &fixed));
  zx_handle_t three[3] = {event, fixed, ZX_HANDLE_INVALID};
  EQ(zx_channel_write(ends[0], 0, NULL, 0, three, 3), ZX_ERR_ACCESS_DENIED);
  CHECK(!is_open(event) && !is_open(fixed));
  event = new_event();
  zx_handle_t twice[2] = {event, event};
  EQ(zx_channel_write(ends[0], 0, NULL, 0, twice, 2), ZX_ERR_BAD_HANDLE);
  CHECK(!is_open(event));
  /* The endpoint itself is consumed too; its other end may be sent through it. */
  event = new_event();
  zx_handle_t self[2] = {event, other[0]};
  EQ(zx_channel_write(other[0], 0, NULL, 0, self, 2), ZX_ERR_NOT_SUPPORTED);
  CHECK(!is_open(event) && !is_open(other[0]));
  EQ(signals_of(other[1]), ZX_CHANNEL_PEER_CLOSED);
  event = new_event();
  EQ(zx_channel_write(other[1], 0, NULL, 0, &event, 1), ZX_ERR_PEER_CLOSED);
  CHECK(!is_open(event));
  OK(zx_handle_close(other[1]));
  OK(zx_channel_write(ends[0], 0, NULL, 0, &ends[1], 1));
  CHECK(!is_open(ends[1]));
  OK(zx_handle_close(ends[0]));
}

static void two_hundred_channels_nest(void) {
  zx_handle_t outer[2];
  new_channel(outer);
  zx_handle_t tail = outer[0], keep = outer[1];
  for (int i = 0; i < 200; ++i) {
    zx_handle_t next[2];
    new_channel(next);
    OK(zx_channel_write(next[0], 0, NULL, 0, &keep, 1));
    OK(zx_handle_close(next[0]));
    keep = next[1];
  }
  EQ(signals_of(tail), ZX_CHANNEL_WRITABLE);
  OK(zx_handle_close(keep));
  EQ(signals_of(tail), ZX_CHANNEL_PEER_CLOSED);
  OK(zx_handle_close(tail));
}

static void a_message_is_spread_over_regions(void) {
  zx_handle_t ends[2], got = ZX_HANDLE_INVALID, event = new_event();
  new_channel(ends);
  char a[4] = "....", b[5] = ".....", c[3] = "...";
  uncopy_zx_region_t parts[4] = {{a, 3, 0}, {NULL, 0, 0}, {b, 4, 0}, {c, 3, 0}};
  uint32_t bytes = 99, handles = 99;
  OK(zx_channel_write(ends[0], 0, "12345678", 8, &event, 1));
  /* Too small by one byte, then by the handle: it stays queued. */
  parts[3].capacity = 0;
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, &got, 1, &bytes, &handles),
     ZX_ERR_BUFFER_TOO_SMALL);
  EQ(bytes, 8);
  EQ(handles, 1);
  parts[3].capacity = 3;
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, &got, 0, NULL, NULL),
     ZX_ERR_BUFFER_TOO_SMALL);
  /* An array that breaks a rule takes nothing either. */
  parts[0].reserved = 1;
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, &got, 1, NULL, NULL),
     ZX_ERR_INVALID_ARGS);
  parts[0].reserved = 0;
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, (void*)1, 4, &got, 1, NULL, NULL),
     ZX_ERR_INVALID_ARGS);
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, (void*)1, 8193, &got, 1, NULL, NULL),
     ZX_ERR_OUT_OF_RANGE);
  EQ(uncopy_zx_channel_read_scattered(ends[1], 2, (void*)1, 8193, &got, 1, NULL, NULL),
     ZX_ERR_NOT_SUPPORTED);
  EQ(uncopy_zx_channel_read_scattered(got, 2, NULL, 0, &got, 1, NULL, NULL), ZX_ERR_BAD_HANDLE);
  OK(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, &got, 1, &bytes, &handles));
  EQ(bytes, 8);
  EQ(handles, 1);
  EQ(memcmp(a, "123.", 4) + memcmp(b, "4567.", 5) + memcmp(c, "8..", 3), 0);
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, NULL, 0, NULL, NULL),
     ZX_ERR_SHOULD_WAIT);
  /* A bad pointer to room that is needed loses the message, and one that is not needed does not. */
  parts[2].buffer = (void*)1;
  OK(zx_channel_write(ends[0], 0, "1234", 4, &got, 1));
  EQ(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, &got, 1, NULL, NULL),
     ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  OK(zx_channel_write(ends[0], 0, "abc", 3, NULL, 0));
  OK(uncopy_zx_channel_read_scattered(ends[1], 0, parts, 4, NULL, 0, NULL, NULL));
  EQ(memcmp(a, "abc.", 4), 0);
  OK(zx_channel_write(ends[0], 0, NULL, 0, NULL, 0));
  OK(uncopy_zx_channel_read_scattered(ends[1], 0, NULL, 0, NULL, 0, NULL, NULL));
  close_both(ends);
}

static void a_full_queue_says_so(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  int count = 0;
  zx_status_t status;
  while ((status = zx_channel_write(ends[0], 0, "x", 1, NULL, 0)) == ZX_OK && count < 100000) ++count;
  EQ(status, ZX_ERR_SHOULD_WAIT);
  CHECK(count >= 4096);
  EQ(signals_of(ends[0]) & ZX_CHANNEL_WRITABLE, 0);
  char byte;
  OK(zx_channel_read(ends[1], 0, &byte, NULL, 1, 0, NULL, NULL));
  if (is_local()) EQ(signals_of(ends[0]), ZX_CHANNEL_WRITABLE);
  close_both(ends);
}

int main(void) {
  choose_mode();
  RUN(creates_with_default_rights);
  RUN(signals_follow_the_queue_and_the_peer);
  RUN(read_checks_in_order);
  RUN(write_checks_in_order);
  RUN(sizes_at_the_limits_and_one_past);
  RUN(a_message_that_does_not_fit_stays_unless_it_may_be_dropped);
  RUN(handles_arrive_with_their_objects_and_rights);
  RUN(handles_are_consumed_on_every_failure);
  RUN(two_hundred_channels_nest);
  RUN(a_message_is_spread_over_regions);
  RUN(a_full_queue_says_so);
  return failures != 0;
}
