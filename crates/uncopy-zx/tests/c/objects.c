/* Handles, and the objects other than channels and ports. */
#include "check.h"

static void handles_are_copied_with_rights(void) {
  zx_handle_t event = new_event(), copy, weak;
  zx_info_handle_basic_t info;
  zx_info_handle_count_t count;
  OK(zx_handle_duplicate(event, ZX_RIGHT_SAME_RIGHTS, &copy));
  EQ(koid_of(copy), koid_of(event));
  OK(zx_object_get_info(copy, ZX_INFO_HANDLE_COUNT, &count, sizeof(count), NULL, NULL));
  EQ(count.handle_count, 2);
  EQ(zx_handle_duplicate(event, ZX_RIGHT_READ, &weak), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_duplicate(event, ZX_RIGHT_WAIT, &weak));
  OK(zx_object_get_info(weak, ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL));
  EQ(info.rights, ZX_RIGHT_WAIT);
  EQ(info.related_koid, 0);
  zx_handle_t none;
  EQ(zx_handle_duplicate(weak, ZX_RIGHT_SAME_RIGHTS, &none), ZX_ERR_ACCESS_DENIED);
  EQ(zx_object_signal(weak, 0, ZX_USER_SIGNAL_0), ZX_ERR_ACCESS_DENIED);
  EQ(zx_object_get_info(weak, ZX_INFO_HANDLE_COUNT, &count, 4, NULL, NULL), ZX_ERR_ACCESS_DENIED);
  zx_handle_t all[3] = {event, copy, weak};
  OK(zx_handle_close_many(all, 3));
  EQ(zx_handle_close_many(all, 3), ZX_ERR_BAD_HANDLE);
}

static void replacing_consumes_always(void) {
  zx_handle_t event = new_event(), next = ZX_HANDLE_INVALID;
  OK(zx_handle_replace(event, ZX_RIGHT_WAIT, &next));
  CHECK(!is_open(event) && is_open(next));
  EQ(zx_handle_replace(next, ZX_RIGHT_READ, &event), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(next));
  EQ(zx_handle_replace(next, ZX_RIGHT_SAME_RIGHTS, &event), ZX_ERR_BAD_HANDLE);
}

static void stale_values_are_bad_handles_for_ever(void) {
  static zx_handle_t stale[20000];
  for (int i = 0; i < 20000; ++i) {
    stale[i] = new_event();
    OK(zx_handle_close(stale[i]));
  }
  zx_handle_t live = new_event();
  for (int i = 0; i < 20000; ++i) {
    CHECK(stale[i] != live);
    EQ(zx_handle_close(stale[i]), ZX_ERR_BAD_HANDLE);
    EQ(zx_handle_check_valid(stale[i]), ZX_ERR_NOT_FOUND);
  }
  OK(zx_handle_check_valid(live));
  OK(zx_handle_close(live));
  OK(zx_handle_close(ZX_HANDLE_INVALID));
  EQ(zx_handle_close(0xfffffffc), ZX_ERR_BAD_HANDLE);
}

static void info_says_how_much_there_is(void) {
  zx_handle_t event = new_event();
  zx_info_handle_basic_t info;
  size_t actual = 9, avail = 9;
  OK(zx_object_get_info(event, ZX_INFO_HANDLE_VALID, NULL, 0, NULL, NULL));
  EQ(zx_object_get_info(event, ZX_INFO_HANDLE_BASIC, &info, sizeof(info) - 1, &actual, &avail),
     ZX_ERR_BUFFER_TOO_SMALL);
  EQ(actual, 0);
  EQ(avail, 1);
  EQ(zx_object_get_info(event, 999, &info, sizeof(info), NULL, NULL), ZX_ERR_NOT_SUPPORTED);
  OK(zx_handle_close(event));
  EQ(zx_object_get_info(event, ZX_INFO_HANDLE_VALID, NULL, 0, NULL, NULL), ZX_ERR_BAD_HANDLE);
  EQ(zx_object_get_info(event, ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL),
     ZX_ERR_BAD_HANDLE);
}

static void events_and_pairs(void) {
  zx_handle_t none, pair[2];
  EQ(zx_event_create(1, &none), ZX_ERR_INVALID_ARGS);
  EQ(zx_eventpair_create(1, &none, &none), ZX_ERR_NOT_SUPPORTED);
  OK(zx_eventpair_create(0, &pair[0], &pair[1]));
  OK(zx_object_signal_peer(pair[0], 0, ZX_EVENTPAIR_SIGNALED | ZX_USER_SIGNAL_7));
  EQ(signals_of(pair[1]), ZX_EVENTPAIR_SIGNALED | ZX_USER_SIGNAL_7);
  EQ(signals_of(pair[0]), 0);
  OK(zx_object_signal_peer(pair[0], ZX_EVENTPAIR_SIGNALED, 0));
  EQ(signals_of(pair[1]), ZX_USER_SIGNAL_7);
  EQ(zx_object_signal_peer(pair[0], 0, ZX_EVENTPAIR_PEER_CLOSED), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(pair[1]));
  EQ(signals_of(pair[0]), ZX_EVENTPAIR_PEER_CLOSED);
  EQ(zx_object_signal_peer(pair[0], 0, ZX_USER_SIGNAL_0), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(pair[0]));
}

/* One end of the pair was shared and the other was not, for good. */
static void a_pair_is_whole_after_a_send_without_descriptors(void) {
  int refused = 0;
  for (rlim_t left = 0; left < 24; ++left) {
    zx_handle_t ends[2], sent, again, port, got = ZX_HANDLE_INVALID, pair[2];
    zx_port_packet_t packet;
    char byte;
    new_channel(ends);
    if (is_local()) {
      int fd = -1;
      OK(uncopy_zx_channel_to_fd(ends[1], &fd));
      OK(uncopy_zx_channel_from_fd(fd, &ends[1]));
    }
    OK(zx_eventpair_create(0, &pair[0], &pair[1]));
    OK(zx_handle_duplicate(pair[0], ZX_RIGHT_SAME_RIGHTS, &sent));
    OK(zx_handle_duplicate(pair[0], ZX_RIGHT_SAME_RIGHTS, &again));
    OK(zx_port_create(0, &port));
    OK(zx_object_wait_async(pair[1], port, 1, ZX_EVENTPAIR_PEER_CLOSED, 0));
    struct rlimit limit = leave_descriptors(left);
    zx_status_t status = zx_channel_write(ends[0], 0, "x", 1, &sent, 1);
    more_descriptors(limit);
    CHECK(status == ZX_OK || status == ZX_ERR_NO_RESOURCES);
    if (status == ZX_OK) {
      OK(zx_channel_read(ends[1], 0, &byte, &got, 1, 1, NULL, NULL));
      OK(zx_handle_close(got));
    } else {
      ++refused;
    }
    OK(zx_channel_write(ends[0], 0, "x", 1, &again, 1));
    OK(zx_channel_read(ends[1], 0, &byte, &got, 1, 1, NULL, NULL));
    OK(zx_object_signal_peer(got, 0, ZX_USER_SIGNAL_0));
    OK(zx_object_wait_one(pair[1], ZX_USER_SIGNAL_0, zx_deadline_after(ZX_SEC(5)), NULL));
    OK(zx_object_signal_peer(pair[1], 0, ZX_USER_SIGNAL_1));
    OK(zx_object_wait_one(got, ZX_USER_SIGNAL_1, zx_deadline_after(ZX_SEC(5)), NULL));
    OK(zx_handle_close(got));
    OK(zx_handle_close(pair[0]));
    OK(zx_port_wait(port, zx_deadline_after(ZX_SEC(5)), &packet));
    EQ(zx_object_signal_peer(pair[1], 0, ZX_USER_SIGNAL_0), ZX_ERR_PEER_CLOSED);
    OK(zx_handle_close(pair[1]));
    OK(zx_handle_close(port));
    close_both(ends);
  }
  CHECK(refused > 8 && refused < 24);
}

static void fifos(void) {
  zx_handle_t ends[2];
  EQ(zx_fifo_create(0, 1, 0, &ends[0], &ends[1]), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_fifo_create(1, 0, 0, &ends[0], &ends[1]), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_fifo_create(1, 4097, 0, &ends[0], &ends[1]), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_fifo_create(1, 1, 1, &ends[0], &ends[1]), ZX_ERR_OUT_OF_RANGE);
  OK(zx_fifo_create(8, 8, 0, &ends[0], &ends[1]));
  uint64_t numbers[16], back[16];
  size_t actual = 99;
  for (int i = 0; i < 16; ++i) numbers[i] = (uint64_t)i * 3;
  EQ(zx_fifo_write(ends[0], 4, numbers, 1, NULL), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_fifo_write(ends[0], 8, numbers, 0, NULL), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_fifo_read(ends[1], 8, back, 1, NULL), ZX_ERR_SHOULD_WAIT);
  OK(zx_fifo_write(ends[0], 8, numbers, 16, &actual));
  EQ(actual, 8);
  EQ(zx_fifo_write(ends[0], 8, numbers, 1, NULL), ZX_ERR_SHOULD_WAIT);
  EQ(signals_of(ends[0]), 0);
  EQ(signals_of(ends[1]), ZX_FIFO_READABLE | ZX_FIFO_WRITABLE);
  OK(zx_fifo_read(ends[1], 8, back, 3, &actual));
  EQ(actual, 3);
  EQ(back[2], 6);
  OK(zx_handle_close(ends[0]));
  OK(zx_fifo_read(ends[1], 8, back, 16, &actual));
  EQ(actual, 5);
  EQ(back[4], 21);
  EQ(zx_fifo_read(ends[1], 8, back, 1, NULL), ZX_ERR_PEER_CLOSED);
  EQ(zx_fifo_write(ends[1], 8, numbers, 1, NULL), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(ends[1]));
}

static void sockets(void) {
  zx_handle_t ends[2];
  char back[16];
  size_t actual = 99;
  EQ(zx_socket_create(2, &ends[0], &ends[1]), ZX_ERR_INVALID_ARGS);
  OK(zx_socket_create(ZX_SOCKET_STREAM, &ends[0], &ends[1]));
  EQ(signals_of(ends[1]), ZX_SOCKET_WRITABLE);
  EQ(zx_socket_read(ends[1], 0, back, 4, NULL), ZX_ERR_SHOULD_WAIT);
  EQ(zx_socket_write(ends[0], 1, "x", 1, NULL), ZX_ERR_INVALID_ARGS);
  OK(zx_socket_write(ends[0], 0, "hello", 5, &actual));
  EQ(actual, 5);
  OK(zx_socket_write(ends[0], 0, "world", 5, NULL));
  EQ(signals_of(ends[1]), ZX_SOCKET_READABLE | ZX_SOCKET_WRITABLE);
  OK(zx_socket_read(ends[1], ZX_SOCKET_PEEK, back, 7, &actual));
  EQ(memcmp(back, "hellowo", 7), 0);
  OK(zx_socket_read(ends[1], 0, back, sizeof(back), &actual));
  EQ(actual, 10);
  OK(zx_socket_set_disposition(ends[0], ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0));
  EQ(zx_socket_write(ends[0], 0, "x", 1, NULL), ZX_ERR_BAD_STATE);
  EQ(zx_socket_read(ends[1], 0, back, 4, NULL), ZX_ERR_BAD_STATE);
  EQ(signals_of(ends[1]), ZX_SOCKET_WRITABLE | ZX_SOCKET_PEER_WRITE_DISABLED);
  OK(zx_handle_close(ends[0]));
  EQ(zx_socket_read(ends[1], 0, back, 4, NULL), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(ends[1]));
  OK(zx_socket_create(ZX_SOCKET_DATAGRAM, &ends[0], &ends[1]));
  OK(zx_socket_write(ends[0], 0, "first", 5, NULL));
  OK(zx_socket_write(ends[0], 0, "second", 6, NULL));
  OK(zx_socket_read(ends[1], 0, back, 3, &actual));
  EQ(actual, 3);
  OK(zx_socket_read(ends[1], 0, back, sizeof(back), &actual));
  EQ(actual, 6);
  close_both(ends);
}

static void memory(void) {
  zx_handle_t vmo, weak;
  uint64_t size = 0;
  char back[16], name[ZX_MAX_NAME_LEN];
  EQ(zx_vmo_create(1, 64, &vmo), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmo_create(UINT64_MAX, 0, &vmo), ZX_ERR_OUT_OF_RANGE);
  OK(zx_vmo_create(5000, 0, &vmo));
  OK(zx_vmo_get_size(vmo, &size));
  EQ(size, 8192);
  OK(zx_vmo_write(vmo, "hello", 4094, 5));
  OK(zx_vmo_read(vmo, back, 4093, 8));
  EQ(memcmp(back, "\0hello\0\0", 8), 0);
  EQ(zx_vmo_write(vmo, "hello", 8190, 5), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_vmo_read(vmo, back, UINT64_MAX, 2), ZX_ERR_OUT_OF_RANGE);
  OK(zx_object_get_property(vmo, ZX_PROP_NAME, name, sizeof(name)));
  EQ(strcmp(name, ""), 0);
  OK(zx_object_set_property(vmo, ZX_PROP_NAME, "a name", 6));
  OK(zx_object_get_property(vmo, ZX_PROP_NAME, name, sizeof(name)));
  EQ(strcmp(name, "a name"), 0);
  OK(zx_object_set_property(vmo, ZX_PROP_NAME, "0123456789012345678901234567890123456789", 40));
  OK(zx_object_get_property(vmo, ZX_PROP_NAME, name, sizeof(name)));
  EQ(strlen(name), 31);
  EQ(zx_object_get_property(vmo, ZX_PROP_NAME, name, 31), ZX_ERR_BUFFER_TOO_SMALL);
  EQ(zx_object_get_property(vmo, 99, name, 32), ZX_ERR_NOT_SUPPORTED);
  OK(zx_handle_duplicate(vmo, ZX_RIGHT_READ, &weak));
  EQ(zx_vmo_write(weak, "x", 0, 1), ZX_ERR_ACCESS_DENIED);
  OK(zx_vmo_read(weak, back, 0, 1));
  EQ(zx_object_get_property(weak, ZX_PROP_NAME, name, 32), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_close(weak));
  EQ(zx_vmo_set_size(vmo, 4096), ZX_ERR_ACCESS_DENIED);
  for (uint32_t op = ZX_VMO_OP_CACHE_SYNC; op <= ZX_VMO_OP_CACHE_CLEAN_INVALIDATE; ++op) {
    OK(zx_vmo_op_range(vmo, op, 0, 1, NULL, 0));
    EQ(zx_vmo_op_range(vmo, op, 0, 0, NULL, 0), ZX_ERR_INVALID_ARGS);
    EQ(zx_vmo_op_range(vmo, op, 8192, 1, NULL, 0), ZX_ERR_OUT_OF_RANGE);
  }
  OK(zx_handle_close(vmo));
}

static void memory_that_changes_its_size(void) {
  zx_handle_t vmo, fixed;
  zx_info_handle_basic_t info;
  uint64_t size = 0;
  char back[4];
  OK(zx_vmo_create(4096, ZX_VMO_RESIZABLE, &vmo));
  OK(zx_object_get_info(vmo, ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL));
  EQ(info.rights, ZX_DEFAULT_VMO_RIGHTS | ZX_RIGHT_RESIZE);
  OK(zx_vmo_write(vmo, "tail", 4092, 4));
  OK(zx_vmo_set_size(vmo, 4097));
  OK(zx_vmo_get_size(vmo, &size));
  EQ(size, 8192);
  OK(zx_vmo_read(vmo, back, 4092, 4));
  EQ(memcmp(back, "tail", 4), 0);
  OK(zx_vmo_read(vmo, back, 8188, 4));
  EQ(memcmp(back, "\0\0\0", 4), 0);
  OK(zx_vmo_set_size(vmo, 0));
  EQ(zx_vmo_read(vmo, back, 0, 4), ZX_ERR_OUT_OF_RANGE);
  /* Freed pages are zero. */
  OK(zx_vmo_set_size(vmo, 4096));
  OK(zx_vmo_read(vmo, back, 4092, 4));
  EQ(memcmp(back, "\0\0\0", 4), 0);
  /* The rest of the last page kept its bytes, and the stream size what it was. */
  OK(zx_vmo_write(vmo, "secret", 0, 6));
  OK(zx_vmo_set_size(vmo, 1));
  OK(zx_vmo_get_stream_size(vmo, &size));
  EQ(size, 1);
  OK(zx_vmo_set_size(vmo, 4096));
  OK(zx_vmo_get_stream_size(vmo, &size));
  EQ(size, 4096);
  OK(zx_vmo_read(vmo, back, 0, 4));
  EQ(memcmp(back, "s\0\0", 4), 0);
  EQ(zx_vmo_set_size(vmo, UINT64_MAX), ZX_ERR_OUT_OF_RANGE);
  OK(zx_handle_duplicate(vmo, ZX_RIGHT_READ | ZX_RIGHT_WRITE, &fixed));
  EQ(zx_vmo_set_size(fixed, 1), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_close(fixed));
  OK(zx_handle_close(vmo));
  EQ(zx_vmo_set_size(vmo, 1), ZX_ERR_BAD_HANDLE);
}

static void time_passes(void) {
  zx_time_t before = zx_clock_get_monotonic(), deadline = zx_deadline_after(ZX_MSEC(2));
  CHECK(deadline >= before + ZX_MSEC(2));
  OK(zx_nanosleep(deadline));
  CHECK(zx_clock_get_monotonic() >= deadline);
  OK(zx_nanosleep(0));
  EQ(zx_deadline_after(INT64_MAX), ZX_TIME_INFINITE);
  CHECK(zx_clock_get_boot() >= before);
  CHECK(zx_ticks_get() > 0 && zx_ticks_per_second() > 0);
  CHECK(zx_system_get_page_size() >= 4096);
  EQ(zx_time_add_duration(ZX_TIME_INFINITE, 1), ZX_TIME_INFINITE);
}

static void statuses_have_names(void) {
  EQ(strcmp(zx_status_get_string(ZX_OK), "ZX_OK"), 0);
  EQ(strcmp(zx_status_get_string(ZX_ERR_PEER_CLOSED), "ZX_ERR_PEER_CLOSED"), 0);
  EQ(strcmp(zx_status_get_string(ZX_ERR_ASYNC), "ZX_ERR_ASYNC"), 0);
  EQ(strcmp(zx_status_get_string(1), "(UNKNOWN)"), 0);
}

static void default_rights(void) {
  zx_handle_t made[8];
  OK(zx_port_create(0, &made[0]));
  OK(zx_vmo_create(1, 0, &made[1]));
  OK(zx_eventpair_create(0, &made[2], &made[3]));
  OK(zx_fifo_create(1, 1, 0, &made[4], &made[5]));
  OK(zx_socket_create(0, &made[6], &made[7]));
  const zx_rights_t rights[8] = {ZX_DEFAULT_PORT_RIGHTS,      ZX_DEFAULT_VMO_RIGHTS,
                                 ZX_DEFAULT_EVENTPAIR_RIGHTS, ZX_DEFAULT_EVENTPAIR_RIGHTS,
                                 ZX_DEFAULT_FIFO_RIGHTS,      ZX_DEFAULT_FIFO_RIGHTS,
                                 ZX_DEFAULT_SOCKET_RIGHTS,    ZX_DEFAULT_SOCKET_RIGHTS};
  const zx_obj_type_t types[8] = {ZX_OBJ_TYPE_PORT,      ZX_OBJ_TYPE_VMO,  ZX_OBJ_TYPE_EVENTPAIR,
                                  ZX_OBJ_TYPE_EVENTPAIR, ZX_OBJ_TYPE_FIFO, ZX_OBJ_TYPE_FIFO,
                                  ZX_OBJ_TYPE_SOCKET,    ZX_OBJ_TYPE_SOCKET};
  for (int i = 0; i < 8; ++i) {
    zx_info_handle_basic_t info;
    zx_info_handle_count_t count;
    OK(zx_object_get_info(made[i], ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL));
    EQ(info.rights, rights[i]);
    EQ(info.type, types[i]);
    OK(zx_object_get_info(made[i], ZX_INFO_HANDLE_COUNT, &count, sizeof(count), NULL, NULL));
    EQ(count.handle_count, 1);
  }
  OK(zx_handle_close_many(made, 8));
}

int main(void) {
  choose_mode();
  RUN(handles_are_copied_with_rights);
  RUN(replacing_consumes_always);
  RUN(stale_values_are_bad_handles_for_ever);
  RUN(info_says_how_much_there_is);
  RUN(events_and_pairs);
  RUN_UNLESS_EMULATED(a_pair_is_whole_after_a_send_without_descriptors);
  RUN(fifos);
  RUN(sockets);
  RUN(memory);
  RUN(memory_that_changes_its_size);
  RUN(time_passes);
  RUN(statuses_have_names);
  RUN(default_rights);
  return failures != 0;
}
