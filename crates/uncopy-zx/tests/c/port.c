/* Waiting: on one object, on many, through ports. */
#include <poll.h>
#include <pthread.h>

#include "check.h"

static void wait_one(void) {
  zx_handle_t event = new_event(), port;
  zx_signals_t observed = 0;
  EQ(zx_object_wait_one(event, ZX_EVENT_SIGNALED, zx_deadline_after(ZX_MSEC(1)), &observed),
     ZX_ERR_TIMED_OUT);
  EQ(observed, 0);
  OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_3));
  OK(zx_object_wait_one(event, ZX_EVENT_SIGNALED, 0, &observed));
  EQ(observed, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_3);
  OK(zx_object_wait_one(event, ZX_USER_SIGNAL_3, ZX_TIME_INFINITE, NULL));
  EQ(zx_object_wait_one(event, ZX_USER_SIGNAL_0, 0, &observed), ZX_ERR_TIMED_OUT);
  EQ(observed, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_3);
  EQ(zx_object_signal(event, 0, ZX_CHANNEL_READABLE), ZX_ERR_INVALID_ARGS);
  EQ(zx_object_signal_peer(event, 0, ZX_USER_SIGNAL_0), ZX_ERR_ACCESS_DENIED);
  OK(zx_port_create(0, &port));
  EQ(zx_object_wait_one(port, 1, 0, NULL), ZX_ERR_ACCESS_DENIED);
  EQ(zx_object_wait_one(ZX_HANDLE_INVALID, 1, 0, NULL), ZX_ERR_BAD_HANDLE);
  OK(zx_handle_close(port));
  OK(zx_handle_close(event));
}

/* Time for the other thread to begin its wait, usually. */
static void settle(void) { zx_nanosleep(zx_deadline_after(ZX_MSEC(200))); }

static void* close_later(void* handle) {
  settle();
  OK(zx_handle_close(*(zx_handle_t*)handle));
  return NULL;
}

static void* move_and_lose(void* handle) {
  zx_handle_t through[2];
  settle();
  /* A port cannot be sent over a socket. */
  OK(zx_channel_create(0, &through[0], &through[1]));
  OK(zx_channel_write(through[0], 0, NULL, 0, (zx_handle_t*)handle, 1));
  close_both(through);
  return NULL;
}

static zx_handle_t new_port(void) {
  zx_handle_t port;
  OK(zx_port_create(0, &port));
  return port;
}

static zx_status_t wait_for_one(zx_handle_t event) {
  zx_signals_t observed = 0;
  zx_status_t status = zx_object_wait_one(event, ZX_EVENT_SIGNALED, ZX_TIME_INFINITE, &observed);
  if (status == ZX_ERR_CANCELED) EQ(observed, ZX_SIGNAL_HANDLE_CLOSED);
  return status;
}

static zx_status_t wait_for_two(zx_handle_t event) {
  zx_handle_t other = new_event();
  zx_wait_item_t items[2] = {{other, ZX_EVENT_SIGNALED, 9}, {event, ZX_EVENT_SIGNALED, 9}};
  zx_status_t status = zx_object_wait_many(items, 2, ZX_TIME_INFINITE);
  if (status == ZX_ERR_CANCELED) {
    EQ(items[0].pending, 0);
    EQ(items[1].pending, ZX_SIGNAL_HANDLE_CLOSED);
  }
  OK(zx_handle_close(other));
  return status;
}

static zx_status_t wait_at_port(zx_handle_t port) {
  zx_port_packet_t packet;
  return zx_port_wait(port, ZX_TIME_INFINITE, &packet);
}

/* Waits while another thread takes the handle away. On a busy machine it may be gone before the wait
 * begins; then tries again. */
static void is_canceled(zx_handle_t (*make)(void), zx_status_t (*wait)(zx_handle_t),
                        void* (*take_away)(void*)) {
  zx_status_t status;
  do {
    zx_handle_t handle = make(), taken = handle;
    pthread_t thread;
    pthread_create(&thread, NULL, take_away, &taken);
    status = wait(handle);
    pthread_join(thread, NULL);
    CHECK(!is_open(handle));
  } while (status == ZX_ERR_BAD_HANDLE);
  EQ(status, ZX_ERR_CANCELED);
}

static void waits_end_with_their_handles(void) {
  is_canceled(new_event, wait_for_one, close_later);
  is_canceled(new_event, wait_for_two, close_later);
  is_canceled(new_port, wait_at_port, close_later);
}

static void waits_at_ports_end_with_the_last_handle(void) {
  is_canceled(new_port, wait_at_port, move_and_lose);
}

static void wait_many(void) {
  zx_wait_item_t items[ZX_WAIT_MANY_MAX_ITEMS + 1];
  for (size_t i = 0; i <= ZX_WAIT_MANY_MAX_ITEMS; ++i) {
    items[i].handle = new_event();
    items[i].waitfor = ZX_EVENT_SIGNALED;
    items[i].pending = 7;
  }
  EQ(zx_object_wait_many(items, ZX_WAIT_MANY_MAX_ITEMS + 1, 0), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_object_wait_many(items, ZX_WAIT_MANY_MAX_ITEMS, 0), ZX_ERR_TIMED_OUT);
  EQ(items[5].pending, 0);
  OK(zx_object_signal(items[63].handle, 0, ZX_EVENT_SIGNALED));
  OK(zx_object_signal(items[2].handle, 0, ZX_USER_SIGNAL_1));
  OK(zx_object_wait_many(items, ZX_WAIT_MANY_MAX_ITEMS, ZX_TIME_INFINITE));
  EQ(items[63].pending, ZX_EVENT_SIGNALED);
  EQ(items[2].pending, ZX_USER_SIGNAL_1);
  EQ(zx_object_wait_many(NULL, 0, zx_deadline_after(ZX_MSEC(1))), ZX_ERR_TIMED_OUT);
  for (size_t i = 0; i <= ZX_WAIT_MANY_MAX_ITEMS; ++i) OK(zx_handle_close(items[i].handle));
  EQ(zx_object_wait_many(items, 1, 0), ZX_ERR_BAD_HANDLE);
}

static void packets_of_the_program_come_in_order(void) {
  zx_handle_t port;
  EQ(zx_port_create(6, &port), ZX_ERR_INVALID_ARGS);
  OK(zx_port_create(0, &port));
  zx_port_packet_t in, out;
  memset(&in, 0, sizeof(in));
  for (int i = 0; i < 5; ++i) {
    in.key = (uint64_t)i;
    in.type = ZX_PKT_TYPE_USER + 5u;
    in.status = -3 - i;
    memset(in.user.c8, 'a' + i, sizeof(in.user.c8));
    OK(zx_port_queue(port, &in));
  }
  for (int i = 0; i < 5; ++i) {
    OK(zx_port_wait(port, ZX_TIME_INFINITE, &out));
    EQ(out.key, i);
    EQ(out.type, ZX_PKT_TYPE_USER);
    EQ(out.status, -3 - i);
    EQ(out.user.c8[0], 'a' + i);
    EQ(out.user.c8[31], 'a' + i);
  }
  EQ(zx_port_wait(port, 0, &out), ZX_ERR_TIMED_OUT);
  EQ(zx_port_wait(port, zx_deadline_after(ZX_MSEC(1)), &out), ZX_ERR_TIMED_OUT);
  OK(zx_handle_close(port));
}

static void signals_become_packets(void) {
  zx_handle_t ends[2], port;
  new_channel(ends);
  OK(zx_port_create(0, &port));
  zx_port_packet_t packet;
  OK(zx_object_wait_async(ends[1], port, 17, ZX_CHANNEL_READABLE | ZX_CHANNEL_PEER_CLOSED, 0));
  EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
  OK(zx_channel_write(ends[0], 0, "x", 1, NULL, 0));
  OK(zx_channel_write(ends[0], 0, "x", 1, NULL, 0));
  OK(zx_port_wait(port, 0, &packet));
  EQ(packet.key, 17);
  EQ(packet.type, ZX_PKT_TYPE_SIGNAL_ONE);
  EQ(packet.status, ZX_OK);
  EQ(packet.signal.trigger, ZX_CHANNEL_READABLE | ZX_CHANNEL_PEER_CLOSED);
  EQ(packet.signal.observed, ZX_CHANNEL_READABLE | ZX_CHANNEL_WRITABLE);
  EQ(packet.signal.count, 1);
  EQ(packet.signal.timestamp, 0);
  /* One packet; then at once, because the signal is set; none with an edge. */
  EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
  zx_time_t before = zx_clock_get_monotonic();
  OK(zx_object_wait_async(ends[1], port, 18, ZX_CHANNEL_READABLE, ZX_WAIT_ASYNC_TIMESTAMP));
  OK(zx_port_wait(port, 0, &packet));
  EQ(packet.key, 18);
  CHECK(packet.signal.timestamp >= before);
  CHECK(packet.signal.timestamp <= zx_clock_get_monotonic());
  OK(zx_object_wait_async(ends[1], port, 19, ZX_CHANNEL_READABLE, ZX_WAIT_ASYNC_EDGE));
  EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
  OK(zx_port_cancel(port, ends[1], 19));
  EQ(zx_port_cancel(port, ends[1], 19), ZX_ERR_NOT_FOUND);
  /* Queued packets are removed too, but only those with that key. */
  OK(zx_object_wait_async(ends[1], port, 20, ZX_CHANNEL_READABLE, 0));
  OK(zx_object_wait_async(ends[1], port, 21, ZX_CHANNEL_READABLE, 0));
  OK(zx_port_cancel(port, ends[1], 20));
  OK(zx_port_wait(port, 0, &packet));
  EQ(packet.key, 21);
  EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
  close_both(ends);
  OK(zx_handle_close(port));
}

static void checks_of_wait_async(void) {
  zx_handle_t event = new_event(), port, weak, blind;
  OK(zx_port_create(0, &port));
  EQ(zx_object_wait_async(0, 0, 0, 0, ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP),
     ZX_ERR_INVALID_ARGS);
  EQ(zx_object_wait_async(0, 0, 0, 0, 8), ZX_ERR_INVALID_ARGS);
  EQ(zx_object_wait_async(0, event, 0, 0, 0), ZX_ERR_WRONG_TYPE);
  EQ(zx_object_wait_async(0, port, 0, 0, 0), ZX_ERR_BAD_HANDLE);
  OK(zx_handle_duplicate(port, ZX_RIGHT_READ, &weak));
  EQ(zx_object_wait_async(0, weak, 0, 0, 0), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_duplicate(event, ZX_RIGHT_TRANSFER, &blind));
  EQ(zx_object_wait_async(blind, port, 0, 0, 0), ZX_ERR_ACCESS_DENIED);
  zx_port_packet_t packet = {0};
  EQ(zx_port_queue(weak, &packet), ZX_ERR_ACCESS_DENIED);
  EQ(zx_port_queue(event, &packet), ZX_ERR_WRONG_TYPE);
  EQ(zx_port_wait(event, 0, &packet), ZX_ERR_WRONG_TYPE);
  EQ(zx_port_cancel(port, ZX_HANDLE_INVALID, 0), ZX_ERR_BAD_HANDLE);
  zx_handle_t all[] = {event, port, weak, blind};
  OK(zx_handle_close_many(all, 4));
}

static void a_closed_handle_is_no_longer_bound(void) {
  zx_handle_t event = new_event(), copy, port;
  OK(zx_port_create(0, &port));
  OK(zx_handle_duplicate(event, ZX_RIGHT_SAME_RIGHTS, &copy));
  OK(zx_object_wait_async(copy, port, 1, ZX_EVENT_SIGNALED, 0));
  OK(zx_handle_close(copy));
  OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
  zx_port_packet_t packet;
  EQ(zx_port_wait(port, 0, &packet), ZX_ERR_TIMED_OUT);
  OK(zx_handle_close(event));
  OK(zx_handle_close(port));
}

static void descriptors_poll_signals(void) {
  zx_handle_t ends[2];
  new_channel(ends);
  int fd = -1;
  OK(uncopy_zx_poll_fd_create(ends[1], ZX_CHANNEL_READABLE, &fd));
  struct pollfd polled = {fd, POLLIN, 0};
  EQ(poll(&polled, 1, 0), 0);
  OK(zx_channel_write(ends[0], 0, "x", 1, NULL, 0));
  EQ(poll(&polled, 1, 1000), 1);
  EQ(poll(&polled, 1, 0), 1);
  char byte;
  OK(zx_channel_read(ends[1], 0, &byte, NULL, 1, 0, NULL, NULL));
  EQ(poll(&polled, 1, 0), 0);
  OK(uncopy_zx_poll_fd_close(fd));
  EQ(uncopy_zx_poll_fd_close(fd), ZX_ERR_NOT_FOUND);
  close_both(ends);
}

#define WRITERS 3
#define MESSAGES 2000
static zx_handle_t shared[2], shared_port;

static void* keep_writing(void* arg) {
  for (int i = 0; i < MESSAGES; ++i) {
    zx_status_t status;
    while ((status = zx_channel_write(shared[0], 0, "abcd", 4, NULL, 0)) == ZX_ERR_SHOULD_WAIT) {
      OK(zx_object_wait_one(shared[0], ZX_CHANNEL_WRITABLE, ZX_TIME_INFINITE, NULL));
    }
    OK(status);
  }
  return arg;
}

static void no_signal_is_lost_or_spurious(void) {
  new_channel(shared);
  OK(zx_port_create(0, &shared_port));
  pthread_t writers[WRITERS];
  for (int i = 0; i < WRITERS; ++i) pthread_create(&writers[i], NULL, keep_writing, NULL);
  for (int i = 0; i < WRITERS * MESSAGES; ++i) {
    zx_port_packet_t packet;
    char bytes[4];
    OK(zx_object_wait_async(shared[1], shared_port, 1, ZX_CHANNEL_READABLE, 0));
    OK(zx_port_wait(shared_port, ZX_TIME_INFINITE, &packet));
    OK(zx_channel_read(shared[1], 0, bytes, NULL, 4, 0, NULL, NULL));
    if (failures != 0) break;
  }
  for (int i = 0; i < WRITERS; ++i) pthread_join(writers[i], NULL);
  close_both(shared);
  OK(zx_handle_close(shared_port));
}

int main(void) {
  choose_mode();
  RUN(wait_one);
  RUN(waits_end_with_their_handles);
  RUN(waits_at_ports_end_with_the_last_handle);
  RUN(wait_many);
  RUN(packets_of_the_program_come_in_order);
  RUN(signals_become_packets);
  RUN(checks_of_wait_async);
  RUN(a_closed_handle_is_no_longer_bound);
  RUN(descriptors_poll_signals);
  RUN(no_signal_is_lost_or_spurious);
  return failures != 0;
}
