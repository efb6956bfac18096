/* zx_channel_write_etc: the order of checks for each handle, results, and ownership. */
#include "check.h"

#define MOVE ZX_HANDLE_OP_MOVE
#define DUPLICATE ZX_HANDLE_OP_DUPLICATE
#define SAME ZX_RIGHT_SAME_RIGHTS
#define UNTOUCHED 12345

static zx_handle_t ends[2];

static zx_status_t send_one(zx_handle_t through, zx_handle_disposition_t* one) {
  one->result = UNTOUCHED;
  return zx_channel_write_etc(through, 0, NULL, 0, one, 1);
}

/* One handle that is sent; its owner afterwards, and the result. */
static void one(zx_handle_op_t operation, zx_handle_t handle, zx_obj_type_t type,
                zx_rights_t rights, zx_status_t expected) {
  zx_handle_disposition_t sent = {operation, handle, type, rights, 0};
  EQ(send_one(ends[0], &sent), expected);
  EQ(sent.result, expected == ZX_OK ? UNTOUCHED : expected);
  if (operation != DUPLICATE) CHECK(!is_open(handle));
  if (expected == ZX_OK) {
    zx_handle_t got;
    OK(zx_channel_read(ends[1], 0, NULL, &got, 0, 1, NULL, NULL));
    OK(zx_handle_close(got));
  }
}

static void each_check_alone(void) {
  new_channel(ends);
  zx_handle_t event = new_event(), weak;
  one(DUPLICATE, event, ZX_OBJ_TYPE_NONE, SAME, ZX_OK);
  one(DUPLICATE, event, ZX_OBJ_TYPE_EVENT, ZX_RIGHT_WAIT, ZX_OK);
  one(DUPLICATE, event, ZX_OBJ_TYPE_PORT, SAME, ZX_ERR_WRONG_TYPE);
  one(DUPLICATE, event, ZX_OBJ_TYPE_PROCESS, SAME, ZX_ERR_WRONG_TYPE);
  one(DUPLICATE, event, ZX_OBJ_TYPE_EVENT, ZX_RIGHT_READ, ZX_ERR_INVALID_ARGS);
  CHECK(is_open(event));
  OK(zx_handle_duplicate(event, ZX_RIGHT_TRANSFER, &weak));
  one(DUPLICATE, weak, ZX_OBJ_TYPE_EVENT, SAME, ZX_ERR_ACCESS_DENIED);
  one(MOVE, weak, ZX_OBJ_TYPE_EVENT, SAME, ZX_OK);
  OK(zx_handle_duplicate(event, ZX_RIGHT_DUPLICATE, &weak));
  one(DUPLICATE, weak, ZX_OBJ_TYPE_EVENT, SAME, ZX_ERR_ACCESS_DENIED);
  one(MOVE, weak, ZX_OBJ_TYPE_PORT, ZX_RIGHT_READ, ZX_ERR_ACCESS_DENIED);
  one(MOVE, weak, ZX_OBJ_TYPE_EVENT, SAME, ZX_ERR_BAD_HANDLE);
  one(DUPLICATE, ZX_HANDLE_INVALID, ZX_OBJ_TYPE_EVENT, SAME, ZX_ERR_BAD_HANDLE);
  one(MOVE, event, ZX_OBJ_TYPE_EVENT, ZX_RIGHT_WAIT, ZX_OK);
  /* Unknown operation: closed too. */
  one(7, new_event(), ZX_OBJ_TYPE_NONE, SAME, ZX_ERR_INVALID_ARGS);
  /* A channel cannot be duplicated. */
  zx_handle_t other[2];
  new_channel(other);
  one(DUPLICATE, other[0], ZX_OBJ_TYPE_CHANNEL, SAME, ZX_ERR_ACCESS_DENIED);
  one(MOVE, other[0], ZX_OBJ_TYPE_EVENT, SAME, ZX_ERR_WRONG_TYPE);
  EQ(signals_of(other[1]), ZX_CHANNEL_PEER_CLOSED);
  one(MOVE, other[1], ZX_OBJ_TYPE_CHANNEL, SAME, ZX_OK);
  close_both(ends);
}

static void earlier_checks_win(void) {
  new_channel(ends);
  zx_handle_t stuck, event = new_event();
  OK(zx_handle_replace(event, ZX_RIGHT_WAIT, &stuck));
  /* Transfer right, type and rights wrong: reports the transfer right. */
  one(MOVE, stuck, ZX_OBJ_TYPE_PORT, ZX_RIGHT_READ, ZX_ERR_ACCESS_DENIED);
  /* The endpoint itself, with wrong type and rights: reports the endpoint. */
  zx_handle_disposition_t self = {MOVE, ends[0], ZX_OBJ_TYPE_PORT, ZX_RIGHT_MAP, UNTOUCHED};
  EQ(zx_channel_write_etc(ends[0], 0, NULL, 0, &self, 1), ZX_ERR_NOT_SUPPORTED);
  EQ(self.result, ZX_ERR_NOT_SUPPORTED);
  CHECK(!is_open(ends[0]));
  OK(zx_handle_close(ends[1]));
  new_channel(ends);
  /* Type and rights wrong: reports the type. */
  one(MOVE, new_event(), ZX_OBJ_TYPE_PORT, ZX_RIGHT_READ, ZX_ERR_WRONG_TYPE);
  close_both(ends);
}

static void all_are_tried_and_the_first_error_counts(void) {
  new_channel(ends);
  zx_handle_t events[4] = {new_event(), new_event(), new_event(), new_event()};
  zx_handle_disposition_t sent[5] = {
      {MOVE, events[0], ZX_OBJ_TYPE_EVENT, SAME, UNTOUCHED},
      {MOVE, events[1], ZX_OBJ_TYPE_PORT, SAME, UNTOUCHED},
      {DUPLICATE, events[2], ZX_OBJ_TYPE_EVENT, ZX_RIGHT_MAP, UNTOUCHED},
      {MOVE, events[0], ZX_OBJ_TYPE_EVENT, SAME, UNTOUCHED},
      {9, events[3], ZX_OBJ_TYPE_EVENT, SAME, UNTOUCHED},
  };
  EQ(zx_channel_write_etc(ends[0], 0, NULL, 0, sent, 5), ZX_ERR_WRONG_TYPE);
  EQ(sent[0].result, UNTOUCHED);
  EQ(sent[1].result, ZX_ERR_WRONG_TYPE);
  EQ(sent[2].result, ZX_ERR_INVALID_ARGS);
  EQ(sent[3].result, ZX_ERR_BAD_HANDLE);
  EQ(sent[4].result, ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(events[0]) && !is_open(events[1]) && is_open(events[2]) && !is_open(events[3]));
  OK(zx_handle_close(events[2]));
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void duplicates_and_moves_of_one_handle(void) {
  new_channel(ends);
  zx_handle_t event = new_event(), got[2];
  zx_handle_disposition_t both[2] = {{DUPLICATE, event, ZX_OBJ_TYPE_EVENT, SAME, 0},
                                     {MOVE, event, ZX_OBJ_TYPE_EVENT, SAME, 0}};
  OK(zx_channel_write_etc(ends[0], 0, NULL, 0, both, 2));
  CHECK(!is_open(event));
  OK(zx_channel_read(ends[1], 0, NULL, got, 0, 2, NULL, NULL));
  if (is_local()) EQ(koid_of(got[0]), koid_of(got[1]));
  OK(zx_handle_close_many(got, 2));
  event = new_event();
  zx_handle_disposition_t after[2] = {{MOVE, event, ZX_OBJ_TYPE_EVENT, SAME, 0},
                                      {DUPLICATE, event, ZX_OBJ_TYPE_EVENT, SAME, 0}};
  EQ(zx_channel_write_etc(ends[0], 0, NULL, 0, after, 2), ZX_ERR_BAD_HANDLE);
  EQ(after[1].result, ZX_ERR_BAD_HANDLE);
  close_both(ends);
}

static void what_is_to_be_moved_is_consumed_by_every_failure(void) {
  new_channel(ends);
  for (int failure = 0; failure < 5; ++failure) {
    zx_handle_t moved = new_event(), kept = new_event();
    zx_handle_disposition_t sent[2] = {{MOVE, moved, ZX_OBJ_TYPE_NONE, SAME, UNTOUCHED},
                                       {DUPLICATE, kept, ZX_OBJ_TYPE_NONE, SAME, UNTOUCHED}};
    switch (failure) {
      case 0:
        EQ(zx_channel_write_etc(ends[0], 64, NULL, 0, sent, 2), ZX_ERR_INVALID_ARGS);
        break;
      case 1:
        EQ(zx_channel_write_etc(ZX_HANDLE_INVALID, 0, NULL, 0, sent, 2), ZX_ERR_BAD_HANDLE);
        break;
      case 2:
        EQ(zx_channel_write_etc(ends[0], 0, NULL, 65537, sent, 2), ZX_ERR_OUT_OF_RANGE);
        break;
      case 3:
        EQ(zx_channel_write_etc(ends[0], 0, (void*)1, 9, sent, 2), ZX_ERR_INVALID_ARGS);
        break;
      default:
        OK(zx_handle_close(ends[1]));
        EQ(zx_channel_write_etc(ends[0], 0, NULL, 0, sent, 2), ZX_ERR_PEER_CLOSED);
    }
    CHECK(!is_open(moved) && is_open(kept));
    EQ(sent[0].result, UNTOUCHED);
    OK(zx_handle_close(kept));
  }
  OK(zx_handle_close(ends[0]));
}

int main(void) {
  choose_mode();
  RUN(each_check_alone);
  RUN(earlier_checks_win);
  RUN(all_are_tried_and_the_first_error_counts);
  RUN(duplicates_and_moves_of_one_handle);
  RUN(what_is_to_be_moved_is_consumed_by_every_failure);
  return failures != 0;
}
