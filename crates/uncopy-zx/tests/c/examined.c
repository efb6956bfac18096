/* A channel with two unread messages. With an argument it waits while another program examines it. */
#include <stdio.h>
#include <unistd.h>

#include "check.h"

int main(int argc, char** argv) {
  (void)argv;
  choose_mode();
  zx_handle_t ends[2], far;
  int fd = -1;
  new_channel(ends);
  OK(uncopy_zx_channel_to_fd(ends[0], &fd));
  OK(zx_channel_write(ends[1], 0, "first", 5, NULL, 0));
  OK(zx_channel_write(ends[1], 0, "second", 6, NULL, 0));
  OK(uncopy_zx_channel_from_fd(fd, &far));
  if (argc > 1) {
    char byte;
    printf("%d\n", fd);
    fflush(stdout);
    CHECK(read(STDIN_FILENO, &byte, 1) == 0);
  }
  char bytes[8];
  uint32_t actual;
  OK(zx_channel_read(far, 0, bytes, NULL, 8, 0, &actual, NULL));
  EQ(actual, 5);
  OK(zx_channel_read(far, 0, bytes, NULL, 8, 0, &actual, NULL));
  EQ(actual, 6);
  OK(zx_handle_close(far));
  OK(zx_handle_close(ends[1]));
  return failures != 0;
}
