/* The first call chooses how bad pointers are handled, in whichever direction it copies. */
#include <sys/wait.h>

#include "check.h"

/* The first copy is one from the program. */
static void first_in(void) {
  zx_wait_item_t item = {ZX_HANDLE_INVALID, ZX_EVENT_SIGNALED, 0};
  EQ(zx_object_wait_many(&item, 1, 0), ZX_ERR_BAD_HANDLE);
  EQ(zx_object_wait_many((zx_wait_item_t*)16, 1, 0), ZX_ERR_INVALID_ARGS);
}

/* The first copy is one to the program. */
static void first_out(void) {
  zx_handle_t event = ZX_HANDLE_INVALID;
  OK(zx_event_create(0, &event));
  EQ(zx_event_create(0, (zx_handle_t*)16), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(event));
}

/* Runs it in a new process, which must exit normally. */
static void in_child(void (*test)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    test();
    exit(failures != 0);
  }
  int status = -1;
  EQ(waitpid(child, &status, 0), child);
  EQ(status, 0);
}

int main(void) {
  use_some_stack();
  alarm(300);
  in_child(first_in);
  in_child(first_out);
  return failures != 0;
}
