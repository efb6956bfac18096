/* The programs of the book: its C examples appear here line for line. */
#include <uncopy/zx.h>
#include <zircon/syscalls.h>

#include "check.h"

static void a_message_in_parts(void) {
  zx_handle_t near, far;
  zx_channel_create(0, &near, &far);
  zx_channel_iovec_t parts[] = {{"head", 4, 0}, {"body", 4, 0}};
  zx_channel_write(near, ZX_CHANNEL_WRITE_USE_IOVEC, parts, 2, NULL, 0);

  zx_signals_t seen;
  zx_object_wait_one(far, ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, &seen);
  char bytes[64];
  uint32_t size, count;
  zx_status_t status = zx_channel_read(far, 0, bytes, NULL, sizeof(bytes), 0, &size, &count);
  OK(status);
  EQ(size, 8);
  EQ(memcmp(bytes, "headbody", 8), 0);
  CHECK(seen & ZX_CHANNEL_READABLE);

  zx_channel_iovec_t batch[] = {
      {"first", 5, UNCOPY_ZX_BATCH(0, 0)},
      {"second", 6, UNCOPY_ZX_BATCH(1, 0)},
  };
  uint32_t sent;
  uncopy_zx_channel_write_batch(near, 0, batch, 2, NULL, 0, &sent);
  EQ(sent, 2);

  int fd;
  uncopy_zx_channel_to_fd(far, &fd);
  OK(uncopy_zx_channel_from_fd(fd, &far));
  OK(zx_channel_read(far, 0, bytes, NULL, sizeof(bytes), 0, &size, &count));
  EQ(size, 5);
  OK(zx_handle_close(near));
  OK(zx_handle_close(far));
}

static void from_one_buffer_to_regions(void) {
  zx_handle_t channel, far;
  OK(zx_channel_create(0, &channel, &far));
  char head[] = {1, 2, 3, 4}, body[] = {5, 6, 7}, message[] = {1, 2, 3, 4, 5, 6, 7};
  uint32_t size = sizeof(message), body_size = sizeof(body), count = 0;
  zx_handle_t* handles = NULL;

  zx_channel_write(channel, 0, message, size, handles, count);
  zx_channel_iovec_t parts[] = {{head, sizeof(head), 0}, {body, body_size, 0}};
  zx_channel_write(channel, ZX_CHANNEL_WRITE_USE_IOVEC, parts, 2, handles, count);

  for (int i = 0; i < 2; ++i) {
    char bytes[16];
    OK(zx_channel_read(far, 0, bytes, NULL, sizeof(bytes), 0, &size, &count));
    EQ(size, sizeof(message));
    EQ(memcmp(bytes, message, sizeof(message)), 0);
  }
  OK(zx_handle_close(channel));
  OK(zx_handle_close(far));
}

int main(void) {
  choose_mode();
  RUN(a_message_in_parts);
  RUN(from_one_buffer_to_regions);
  return failures != 0;
}
