/* Handles that several threads use, close and move at once. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

#define THREADS 3

static _Atomic zx_handle_t shared_end;
static _Atomic int stop;

static int is_one_of(zx_status_t status, zx_status_t a, zx_status_t b, zx_status_t c) {
  return status == ZX_OK || status == a || status == b || status == c;
}

static void* use_what_is_there(void* arg) {
  char bytes[16];
  while (!stop) {
    zx_handle_t end = shared_end;
    zx_status_t status = zx_channel_write(end, 0, "0123456789", 10, NULL, 0);
    CHECK(is_one_of(status, ZX_ERR_BAD_HANDLE, ZX_ERR_PEER_CLOSED, ZX_ERR_SHOULD_WAIT));
    status = zx_channel_read(end, 0, bytes, NULL, 16, 0, NULL, NULL);
    CHECK(is_one_of(status, ZX_ERR_BAD_HANDLE, ZX_ERR_PEER_CLOSED, ZX_ERR_SHOULD_WAIT));
    status = zx_object_wait_one(end, ZX_CHANNEL_PEER_CLOSED, 0, NULL);
    CHECK(is_one_of(status, ZX_ERR_BAD_HANDLE, ZX_ERR_TIMED_OUT, ZX_ERR_CANCELED));
    status = zx_object_signal(end, 0, ZX_USER_SIGNAL_1);
    CHECK(is_one_of(status, ZX_ERR_BAD_HANDLE, ZX_ERR_BAD_HANDLE, ZX_ERR_BAD_HANDLE));
    if (failures != 0) break;
  }
  return arg;
}

static void handles_are_closed_and_moved_while_they_are_used(void) {
  int rounds = getenv("UNCOPY_ZX_TEST_SHORT") != NULL ? 300 : 3000;
  zx_handle_t ends[2], through[2];
  pthread_t threads[THREADS];
  new_channel(through);
  new_channel(ends);
  shared_end = ends[0];
  stop = 0;
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, use_what_is_there, NULL);
  for (int i = 0; i < rounds && failures == 0; ++i) {
    zx_handle_t old = shared_end, moved;
    if (i % 2 == 0) {
      OK(zx_handle_close(old));
    } else {
      OK(zx_channel_write(through[0], 0, NULL, 0, &old, 1));
      OK(zx_channel_read(through[1], 0, NULL, &moved, 0, 1, NULL, NULL));
      OK(zx_handle_close(moved));
    }
    CHECK(!is_open(old));
    OK(zx_handle_close(ends[1]));
    new_channel(ends);
    shared_end = ends[0];
  }
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  close_both(ends);
  close_both(through);
}

static _Atomic int wins;

static void* close_it(void* handle) {
  zx_status_t status = zx_handle_close(*(zx_handle_t*)handle);
  CHECK(status == ZX_OK || status == ZX_ERR_BAD_HANDLE);
  if (status == ZX_OK) ++wins;
  return NULL;
}

static void one_of_several_closes_wins(void) {
  for (int round = 0; round < 200; ++round) {
    zx_handle_t event = new_event();
    pthread_t threads[THREADS];
    wins = 0;
    for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, close_it, &event);
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    EQ(wins, 1);
  }
}

static _Atomic int is_done;

static void* wait_for_nothing(void* handle) {
  zx_signals_t observed = 0;
  zx_status_t status =
      zx_object_wait_one(*(zx_handle_t*)handle, ZX_USER_SIGNAL_5, ZX_TIME_INFINITE, &observed);
  /* BAD_HANDLE if the call came too late. */
  CHECK(status == ZX_ERR_CANCELED || status == ZX_ERR_BAD_HANDLE);
  if (status == ZX_ERR_CANCELED) EQ(observed & ZX_SIGNAL_HANDLE_CLOSED, ZX_SIGNAL_HANDLE_CLOSED);
  is_done = 1;
  return NULL;
}

/* Whether the handle is read at the other end or lost with the channel: a wait on it ends. */
static void waits_end_when_their_handle_arrives_elsewhere(void) {
  for (int round = 0; round < 40; ++round) {
    zx_handle_t through[2], event = new_event(), first = event, got;
    pthread_t thread;
    new_channel(through);
    is_done = 0;
    pthread_create(&thread, NULL, wait_for_nothing, &first);
    if (round % 4 != 0) zx_nanosleep(zx_deadline_after(ZX_USEC(200)));
    OK(zx_channel_write(through[0], 0, NULL, 0, &event, 1));
    while (round % 2 == 0 && !is_done) {
      OK(zx_channel_read(through[1], 0, NULL, &got, 0, 1, NULL, NULL));
      OK(zx_channel_write(through[0], 0, NULL, 0, &got, 1));
    }
    close_both(through);
    pthread_join(thread, NULL);
  }
}

int main(void) {
  choose_mode();
  RUN(handles_are_closed_and_moved_while_they_are_used);
  RUN(one_of_several_closes_wins);
  RUN(waits_end_when_their_handle_arrives_elsewhere);
  return failures != 0;
}
