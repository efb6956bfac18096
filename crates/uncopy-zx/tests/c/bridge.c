/* Descriptors as handles, and channels between processes. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void descriptors_travel(void) {
  int pipe_fds[2], back = -1;
  zx_handle_t ends[2], handle, got;
  new_channel(ends);
  EQ(pipe(pipe_fds), 0);
  OK(uncopy_zx_handle_from_fd(pipe_fds[1], &handle));
  OK(zx_channel_write(ends[0], 0, NULL, 0, &handle, 1));
  zx_handle_info_t info;
  OK(zx_channel_read_etc(ends[1], 0, NULL, &info, 0, 1, NULL, NULL));
  EQ(info.type, ZX_OBJ_TYPE_NONE);
  got = info.handle;
  OK(uncopy_zx_handle_to_fd(got, &back));
  CHECK(!is_open(got));
  EQ(write(back, "x", 1), 1);
  char byte = 0;
  EQ(read(pipe_fds[0], &byte, 1), 1);
  EQ(byte, 'x');
  close(back);
  close(pipe_fds[0]);
  EQ(uncopy_zx_handle_from_fd(-1, &handle), ZX_ERR_INVALID_ARGS);
  EQ(uncopy_zx_handle_from_fd(back, &handle), ZX_ERR_INVALID_ARGS);
  EQ(uncopy_zx_handle_to_fd(ends[0], &back), ZX_ERR_WRONG_TYPE);
  EQ(uncopy_zx_handle_to_fd(ZX_HANDLE_INVALID, &back), ZX_ERR_BAD_HANDLE);
  close_both(ends);
}

static void a_bad_pointer_closes_the_descriptor(void) {
  int pipe_fds[2];
  zx_handle_t handle;
  EQ(pipe(pipe_fds), 0);
  EQ(uncopy_zx_handle_from_fd(pipe_fds[0], (void*)1), ZX_ERR_INVALID_ARGS);
  EQ(fcntl(pipe_fds[0], F_GETFD), -1);
  OK(uncopy_zx_handle_from_fd(pipe_fds[1], &handle));
  EQ(uncopy_zx_handle_to_fd(handle, (void*)1), ZX_ERR_INVALID_ARGS);
  EQ(fcntl(pipe_fds[1], F_GETFD), -1);
  CHECK(!is_open(handle));
}

static void endpoints_are_sockets(void) {
  zx_handle_t ends[2], again;
  int fd = -1;
  new_channel(ends);
  OK(zx_channel_write(ends[1], 0, "queued", 6, NULL, 0));
  OK(uncopy_zx_channel_to_fd(ends[0], &fd));
  CHECK(!is_open(ends[0]) && fd >= 0);
  OK(zx_channel_write(ends[1], 0, "sent", 4, NULL, 0));
  OK(uncopy_zx_channel_from_fd(fd, &again));
  char back[8];
  uint32_t actual;
  OK(zx_channel_read(again, 0, back, NULL, 8, 0, &actual, NULL));
  EQ(actual, 6);
  OK(zx_channel_read(again, 0, back, NULL, 8, 0, &actual, NULL));
  EQ(actual, 4);
  OK(zx_handle_close(again));
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_PEER_CLOSED, ZX_TIME_INFINITE, NULL));
  OK(zx_handle_close(ends[1]));
  EQ(uncopy_zx_channel_from_fd(open("/dev/null", O_RDONLY), &again), ZX_ERR_WRONG_TYPE);
  EQ(uncopy_zx_channel_from_fd(-1, &again), ZX_ERR_INVALID_ARGS);
  zx_handle_t event = new_event();
  EQ(uncopy_zx_channel_to_fd(event, &fd), ZX_ERR_WRONG_TYPE);
  OK(zx_handle_close(event));
}

/* The child: reads, adds a new event, answers. */
static int serve(int fd) {
  zx_handle_t end, event;
  zx_signals_t observed;
  char message[16];
  uint32_t bytes;
  if (uncopy_zx_channel_from_fd(fd, &end) != ZX_OK) return 2;
  if (zx_object_wait_one(end, ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, &observed) != ZX_OK) return 3;
  if (zx_channel_read(end, 0, message, NULL, sizeof(message), 0, &bytes, NULL) != ZX_OK) return 4;
  message[4] = 'A';
  if (zx_event_create(0, &event) != ZX_OK) return 5;
  if (zx_channel_write(end, 0, message, bytes, &event, 1) != ZX_OK) return 6;
  /* Waits for the message to exit, not until the other end is closed: a child without exec has copies
   * of all descriptors, also of that end. */
  if (zx_object_wait_one(end, ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, &observed) != ZX_OK) return 8;
  return zx_handle_close(end) == ZX_OK ? 0 : 7;
}

static void processes_call_each_other(void) {
  zx_handle_t ends[2], got = ZX_HANDLE_INVALID;
  int fd = -1;
  new_channel(ends);
  OK(uncopy_zx_channel_to_fd(ends[1], &fd));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(serve(fd));
  close(fd);
  struct {
    zx_txid_t txid;
    char text[8];
  } request = {0, "asked"}, reply = {0, ""};
  zx_channel_call_args_t args = {&request, NULL, &reply, &got, sizeof(request), 0, sizeof(reply), 1};
  uint32_t bytes = 0, handles = 0;
  OK(zx_channel_call(ends[0], 0, zx_deadline_after(ZX_SEC(20)), &args, &bytes, &handles));
  EQ(strcmp(reply.text, "Asked"), 0);
  EQ(handles, 1);
  OK(zx_handle_close(got));
  OK(zx_channel_write(ends[0], 0, "go", 2, NULL, 0));
  int status = -1;
  EQ(waitpid(child, &status, 0), child);
  EQ(status, 0);
  OK(zx_handle_close(ends[0]));
}

/* Makes a fifo, a socket and an event pair, gives one end of each away, writes to the other ends and
 * sets a signal at each. */
static int nudge(int fd) {
  zx_handle_t end, near[3], far[3];
  if (uncopy_zx_channel_from_fd(fd, &end) != ZX_OK) return 2;
  if (zx_fifo_create(4, 4, 0, &near[0], &far[0]) != ZX_OK) return 3;
  if (zx_socket_create(ZX_SOCKET_STREAM, &near[1], &far[1]) != ZX_OK) return 4;
  if (zx_eventpair_create(0, &near[2], &far[2]) != ZX_OK) return 5;
  if (zx_channel_write(end, 0, "ends", 4, far, 3) != ZX_OK) return 6;
  if (zx_object_wait_one(end, ZX_USER_SIGNAL_7, ZX_TIME_INFINITE, NULL) != ZX_OK) return 7;
  if (zx_fifo_write(near[0], 4, "four", 1, NULL) != ZX_OK) return 8;
  if (zx_socket_write(near[1], 0, "bytes", 5, NULL) != ZX_OK) return 9;
  if (zx_object_signal_peer(near[2], 0, ZX_EVENTPAIR_SIGNALED) != ZX_OK) return 10;
  if (zx_channel_write(end, 0, "message", 7, NULL, 0) != ZX_OK) return 11;
  for (int i = 0; i < 3; ++i) {
    if (zx_object_signal_peer(near[i], 0, ZX_USER_SIGNAL_2) != ZX_OK) return 12;
  }
  if (zx_object_signal_peer(end, 0, ZX_USER_SIGNAL_2) != ZX_OK) return 13;
  zx_signals_t go = ZX_USER_SIGNAL_6 | ZX_CHANNEL_PEER_CLOSED;
  if (zx_object_wait_one(end, go, ZX_TIME_INFINITE, NULL) != ZX_OK) return 14;
  for (int i = 0; i < 3; ++i) {
    if (zx_handle_close(near[i]) != ZX_OK) return 15;
  }
  return zx_handle_close(end) == ZX_OK ? 0 : 16;
}

/* The three ways to wait; each returns the signals that are set. */
static zx_signals_t by_wait_one(zx_handle_t handle, zx_signals_t asked, zx_time_t deadline) {
  zx_signals_t observed = 0;
  OK(zx_object_wait_one(handle, asked, deadline, &observed));
  return observed;
}

static zx_signals_t by_wait_many(zx_handle_t handle, zx_signals_t asked, zx_time_t deadline) {
  zx_handle_t event = new_event();
  zx_wait_item_t items[2] = {{event, ZX_EVENT_SIGNALED, 0}, {handle, asked, 0}};
  OK(zx_object_wait_many(items, 2, deadline));
  OK(zx_handle_close(event));
  return items[1].pending;
}

static zx_signals_t by_port(zx_handle_t handle, zx_signals_t asked, zx_time_t deadline) {
  zx_handle_t port = ZX_HANDLE_INVALID;
  zx_port_packet_t packet;
  memset(&packet, 0, sizeof(packet));
  OK(zx_port_create(0, &port));
  OK(zx_object_wait_async(handle, port, 1, asked, 0));
  OK(zx_port_wait(port, deadline, &packet));
  OK(zx_handle_close(port));
  return packet.signal.observed;
}

/* One of the signals is always set; the others come from another process. */
static void waits_for_several_signals_hear_of_another_process(void) {
  zx_signals_t (*const ways[])(zx_handle_t, zx_signals_t, zx_time_t) = {by_wait_one, by_wait_many,
                                                                        by_port};
  for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); ++way) {
    zx_handle_t ends[2], got[4];
    int fd = -1;
    new_channel(ends);
    OK(uncopy_zx_channel_to_fd(ends[1], &fd));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(nudge(fd));
    close(fd);
    zx_time_t deadline = zx_deadline_after(ZX_SEC(60));
    OK(zx_object_wait_one(ends[0], ZX_CHANNEL_READABLE, deadline, NULL));
    char text[4];
    OK(zx_channel_read(ends[0], 0, text, got, 4, 3, NULL, NULL));
    got[3] = ends[0];
    for (int i = 0; i < 4; ++i) {
      zx_signals_t common = ZX_CHANNEL_WRITABLE | ZX_USER_SIGNAL_2 | ZX_USER_SIGNAL_3;
      zx_signals_t awaited = (i == 2 ? ZX_EVENTPAIR_SIGNALED : ZX_CHANNEL_READABLE) | ZX_USER_SIGNAL_2;
      OK(zx_object_signal(got[i], 0, ZX_USER_SIGNAL_3));
      if (i == 0) OK(zx_object_signal_peer(ends[0], 0, ZX_USER_SIGNAL_7));
      zx_signals_t observed = 0;
      while ((observed & awaited) != awaited && zx_clock_get_monotonic() < deadline) {
        observed = ways[way](got[i], common | awaited, deadline);
        CHECK(observed & ZX_USER_SIGNAL_3);
      }
      EQ(observed & awaited, awaited);
    }
    OK(zx_object_signal_peer(ends[0], 0, ZX_USER_SIGNAL_6));
    int status = -1;
    EQ(waitpid(child, &status, 0), child);
    EQ(status, 0);
    for (int i = 0; i < 4; ++i) OK(zx_handle_close(got[i]));
  }
}

int main(void) {
  choose_mode();
  RUN(descriptors_travel);
  RUN(a_bad_pointer_closes_the_descriptor);
  RUN(endpoints_are_sockets);
  RUN(processes_call_each_other);
  RUN(waits_for_several_signals_hear_of_another_process);
  return failures != 0;
}
