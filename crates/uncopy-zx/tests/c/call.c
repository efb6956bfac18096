/* zx_channel_call and zx_channel_call_etc. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "check.h"

typedef struct message {
  zx_txid_t txid;
  char text[16];
} message_t;

static zx_handle_t ends[2];

static zx_channel_call_args_t args_of(message_t* request, message_t* reply) {
  zx_channel_call_args_t args = {request, NULL, reply, NULL, sizeof(*request), 0, sizeof(*reply), 0};
  return args;
}

/* Waits for a message at the far end and answers with it, with another text. */
static void* answer_one(void* arg) {
  message_t message;
  zx_handle_t handle = ZX_HANDLE_INVALID;
  uint32_t bytes, handles;
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
  OK(zx_channel_read(ends[1], 0, &message, &handle, sizeof(message), 1, &bytes, &handles));
  CHECK(message.txid & 0x80000000u);
  message.text[0] = 'A';
  OK(zx_channel_write(ends[1], 0, &message, bytes, &handle, handles));
  return arg;
}

static void a_call_gets_its_answer(void) {
  new_channel(ends);
  message_t request = {77, "question"}, reply = {0, ""};
  zx_channel_call_args_t args = args_of(&request, &reply);
  zx_handle_t event = new_event(), got = ZX_HANDLE_INVALID;
  zx_koid_t koid = koid_of(event);
  args.wr_handles = &event;
  args.wr_num_handles = 1;
  args.rd_handles = &got;
  args.rd_num_handles = 1;
  uint32_t bytes = 0, handles = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, answer_one, NULL);
  OK(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles));
  pthread_join(thread, NULL);
  EQ(bytes, sizeof(reply));
  EQ(handles, 1);
  EQ(strcmp(reply.text, "Auestion"), 0);
  EQ(request.txid, 77);
  CHECK(!is_open(event));
  if (is_local()) EQ(koid_of(got), koid);
  EQ(signals_of(ends[0]), ZX_CHANNEL_WRITABLE);
  OK(zx_handle_close(got));
  close_both(ends);
}

static void call_etc_tells_of_handles(void) {
  new_channel(ends);
  message_t request = {0, "question"}, reply;
  zx_handle_disposition_t sent = {ZX_HANDLE_OP_MOVE, new_event(), ZX_OBJ_TYPE_EVENT,
                                  ZX_RIGHT_TRANSFER | ZX_RIGHT_WAIT, 5};
  zx_handle_info_t got;
  zx_channel_call_etc_args_t args = {&request, &sent, &reply, &got, sizeof(request),
                                     1,        sizeof(reply), 1};
  uint32_t bytes, handles;
  pthread_t thread;
  pthread_create(&thread, NULL, answer_one, NULL);
  OK(zx_channel_call_etc(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles));
  pthread_join(thread, NULL);
  EQ(got.type, ZX_OBJ_TYPE_EVENT);
  EQ(got.rights, ZX_RIGHT_TRANSFER | ZX_RIGHT_WAIT);
  EQ(sent.result, 5);
  OK(zx_handle_close(got.handle));
  sent.handle = new_event();
  sent.type = ZX_OBJ_TYPE_PORT;
  EQ(zx_channel_call_etc(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_WRONG_TYPE);
  EQ(sent.result, ZX_ERR_WRONG_TYPE);
  close_both(ends);
}

static void checks_in_order(void) {
  new_channel(ends);
  message_t request = {0, ""}, reply;
  zx_channel_call_args_t args = args_of(&request, &reply);
  zx_handle_t event = new_event(), weak;
  uint32_t bytes, handles;
  EQ(zx_channel_call(ends[0], 1, 0, NULL, &bytes, &handles), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_call(event, 1, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
  EQ(zx_channel_call(event, 0, 0, &args, &bytes, &handles), ZX_ERR_WRONG_TYPE);
  args.wr_handles = &event;
  args.wr_num_handles = 1;
  args.wr_num_bytes = 3;
  EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
  CHECK(!is_open(event));
  args.wr_num_bytes = 65537;
  EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_OUT_OF_RANGE);
  args.wr_num_bytes = 4;
  EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_BAD_HANDLE);
  args.wr_num_handles = 0;
  OK(zx_handle_close(ends[1]));
  EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(ends[0]));
  new_channel(ends);
  OK(zx_handle_replace(ends[0], ZX_RIGHT_WRITE, &weak));
  EQ(zx_channel_call(weak, 0, 0, &args, &bytes, &handles), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_close(weak));
  OK(zx_handle_close(ends[1]));
}

static void a_past_deadline_still_sends_and_a_late_answer_is_queued(void) {
  new_channel(ends);
  message_t request = {0, "late"}, reply, got;
  zx_channel_call_args_t args = args_of(&request, &reply);
  uint32_t bytes = 3, handles = 3;
  EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE_PAST, &args, &bytes, &handles),
     ZX_ERR_TIMED_OUT);
  EQ(zx_channel_call(ends[0], 0, zx_deadline_after(ZX_MSEC(1)), &args, &bytes, &handles),
     ZX_ERR_TIMED_OUT);
  EQ(bytes, 3);
  zx_txid_t first;
  OK(zx_channel_read(ends[1], 0, &got, NULL, sizeof(got), 0, NULL, NULL));
  first = got.txid;
  OK(zx_channel_write(ends[1], 0, &got, sizeof(got), NULL, 0));
  EQ(signals_of(ends[0]), ZX_CHANNEL_WRITABLE | ZX_CHANNEL_READABLE);
  OK(zx_channel_read(ends[1], 0, &got, NULL, sizeof(got), 0, NULL, NULL));
  CHECK(got.txid != first);
  close_both(ends);
}

static void* answer_two_bytes_more(void* arg) {
  char message[sizeof(message_t) + 2] = {0};
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
  OK(zx_channel_read(ends[1], 0, message, NULL, sizeof(message), 0, NULL, NULL));
  OK(zx_channel_write(ends[1], 0, message, sizeof(message), NULL, 0));
  return arg;
}

static void answers_that_do_not_fit_or_have_nowhere_to_go(void) {
  new_channel(ends);
  message_t request = {0, "big"}, reply;
  zx_channel_call_args_t args = args_of(&request, &reply);
  uint32_t bytes = 3, handles = 3;
  pthread_t thread;
  pthread_create(&thread, NULL, answer_two_bytes_more, NULL);
  EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles),
     ZX_ERR_BUFFER_TOO_SMALL);
  pthread_join(thread, NULL);
  EQ(bytes, 3);
  EQ(handles, 3);
  EQ(zx_channel_read(ends[0], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  for (int i = 0; i < 3; ++i) {
    args.rd_bytes = i == 2 ? (void*)1 : &reply;
    pthread_create(&thread, NULL, answer_one, NULL);
    EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, i == 0 ? NULL : &bytes,
                       i == 1 ? NULL : &handles),
       ZX_ERR_INVALID_ARGS);
    pthread_join(thread, NULL);
  }
  close_both(ends);
}

static zx_handle_t sent_array[1];

static void* reuse_the_array(void* arg) {
  char message[sizeof(message_t)];
  zx_handle_t got;
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
  OK(zx_channel_read(ends[1], 0, message, &got, sizeof(message), 1, NULL, NULL));
  OK(zx_handle_close(got));
  sent_array[0] = *(zx_handle_t*)arg;
  OK(zx_handle_close(ends[1]));
  return NULL;
}

static void a_call_that_fails_later_leaves_the_array_alone(void) {
  new_channel(ends);
  message_t request = {0, "one"}, reply;
  zx_channel_call_args_t args = args_of(&request, &reply);
  zx_handle_t other = new_event();
  uint32_t bytes, handles;
  pthread_t thread;
  sent_array[0] = new_event();
  args.wr_handles = sent_array;
  args.wr_num_handles = 1;
  pthread_create(&thread, NULL, reuse_the_array, &other);
  EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles), ZX_ERR_PEER_CLOSED);
  pthread_join(thread, NULL);
  CHECK(is_open(other));
  OK(zx_handle_close(other));
  OK(zx_handle_close(ends[0]));
}

enum {
  CLOSE_OWN,
  CLOSE_PEER,
  MOVE_AND_READ,
  MOVE_AND_FAIL,
  MOVE_AND_LOSE,
  MOVE_ELSEWHERE_AND_READ,
  MOVE_ELSEWHERE_AND_LOSE,
  WAYS
};

static atomic_int is_over;

/* A channel with a socket between its ends, as between processes. */
static void new_wired_channel(zx_handle_t wired[2]) {
  int fd = -1;
  new_channel(wired);
  OK(uncopy_zx_channel_to_fd(wired[1], &fd));
  OK(uncopy_zx_channel_from_fd(fd, &wired[1]));
}

static void* end_the_call(void* arg) {
  OK(zx_object_wait_one(ends[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
  zx_handle_t other[2], got;
  switch (*(int*)arg) {
    case CLOSE_OWN:
      OK(zx_handle_close(ends[0]));
      break;
    case CLOSE_PEER:
      OK(zx_handle_close(ends[1]));
      break;
    case MOVE_AND_FAIL:
      new_channel(other);
      OK(zx_handle_close(other[1]));
      EQ(zx_channel_write(other[0], 0, NULL, 0, &ends[0], 1), ZX_ERR_PEER_CLOSED);
      OK(zx_handle_close(other[0]));
      break;
    case MOVE_AND_LOSE:
      new_channel(other);
      OK(zx_channel_write(other[0], 0, NULL, 0, &ends[0], 1));
      close_both(other);
      break;
    case MOVE_ELSEWHERE_AND_LOSE:
      new_wired_channel(other);
      OK(zx_channel_write(other[0], 0, NULL, 0, &ends[0], 1));
      close_both(other);
      break;
    default:
      if (*(int*)arg == MOVE_AND_READ) {
        new_channel(other);
      } else {
        new_wired_channel(other);
      }
      OK(zx_channel_write(other[0], 0, NULL, 0, &ends[0], 1));
      OK(zx_object_wait_one(other[1], ZX_CHANNEL_READABLE, ZX_TIME_INFINITE, NULL));
      /* It was written, and not read. */
      OK(zx_nanosleep(zx_deadline_after(ZX_USEC(500))));
      CHECK(!atomic_load(&is_over));
      OK(zx_channel_read(other[1], 0, NULL, &got, 0, 1, NULL, NULL));
      OK(zx_handle_close(got));
      close_both(other);
  }
  return NULL;
}

static void calls_end_with_their_handles(void) {
  for (int how = CLOSE_OWN; how < WAYS; ++how) {
    zx_status_t expected = how == CLOSE_PEER ? ZX_ERR_PEER_CLOSED : ZX_ERR_CANCELED;
    for (int round = 0; round < 50; ++round) {
      new_channel(ends);
      message_t request = {0, "end"}, reply;
      zx_channel_call_args_t args = args_of(&request, &reply);
      uint32_t bytes, handles;
      pthread_t thread;
      atomic_store(&is_over, 0);
      pthread_create(&thread, NULL, end_the_call, &how);
      EQ(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles), expected);
      atomic_store(&is_over, 1);
      pthread_join(thread, NULL);
      /* The request was not read. */
      if (how != CLOSE_PEER) {
        EQ(signals_of(ends[1]), ZX_CHANNEL_PEER_CLOSED | ZX_CHANNEL_READABLE);
      }
      OK(zx_handle_close(how == CLOSE_PEER ? ends[0] : ends[1]));
    }
  }
}

/* Over a socket the first four bytes were not looked at, because the transaction id is sent in their place. */
static void a_bad_pointer_to_the_first_four_bytes_sends_nothing(void) {
  zx_handle_t event;
  message_t reply;
  char rest[12] = "rest";
  zx_channel_iovec_t parts[4] = {{(void*)8, 2, 0}, {rest, 1, 0}, {rest, 1, 0}, {rest, 12, 0}};
  uint32_t bytes, handles;
  new_channel(ends);
  zx_channel_call_args_t args = {NULL, &event, &reply, NULL, 4, 0, sizeof(reply), 0};
  for (args.wr_num_handles = 0; args.wr_num_handles < 2; ++args.wr_num_handles) {
    event = new_event();
    args.wr_bytes = NULL;
    args.wr_num_bytes = 4;
    EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
    EQ(is_open(event), args.wr_num_handles == 0);
    OK(is_open(event) ? ZX_OK : zx_event_create(0, &event));
    args.wr_bytes = parts;
    args.wr_num_bytes = 4;
    EQ(zx_channel_call(ends[0], ZX_CHANNEL_WRITE_USE_IOVEC, 0, &args, &bytes, &handles),
       ZX_ERR_INVALID_ARGS);
    if (is_open(event)) OK(zx_handle_close(event));
  }
  /* The id ends in a page that is there, as all behind it. */
  char* pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EQ(mprotect(pages, 4096, PROT_NONE), 0);
  args.wr_bytes = pages + 4096 - 2;
  args.wr_num_handles = 0;
  for (args.wr_num_bytes = 4; args.wr_num_bytes < 4098; args.wr_num_bytes += 1023) {
    EQ(zx_channel_call(ends[0], 0, 0, &args, &bytes, &handles), ZX_ERR_INVALID_ARGS);
  }
  munmap(pages, 2 * 4096);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

static void* call_without_descriptors(void* arg) {
  message_t request = {0, "transfer"}, reply;
  zx_channel_call_args_t args = args_of(&request, &reply);
  uint32_t bytes, handles;
  struct rlimit limit = leave_descriptors(0);
  EQ(zx_channel_call(ends[0], 0, zx_deadline_after(ZX_SEC(5)), &args, &bytes, &handles),
     ZX_ERR_NO_RESOURCES);
  more_descriptors(limit);
  return arg;
}

/* The request was sent before the call found that it cannot wait for the answer. */
static void a_call_that_cannot_wait_sends_nothing(void) {
  new_wired_channel(ends);
  pthread_t thread;
  pthread_create(&thread, NULL, call_without_descriptors, NULL);
  pthread_join(thread, NULL);
  EQ(zx_channel_read(ends[1], 0, NULL, NULL, 0, 0, NULL, NULL), ZX_ERR_SHOULD_WAIT);
  close_both(ends);
}

#define CALLERS 4
#define CALLS 300

static void* keep_calling(void* arg) {
  for (int i = 0; i < CALLS; ++i) {
    message_t request = {0, ""}, reply = {0, ""};
    snprintf(request.text, sizeof(request.text), "%c%d", 'a' + *(int*)arg, i);
    zx_channel_call_args_t args = args_of(&request, &reply);
    uint32_t bytes, handles;
    OK(zx_channel_call(ends[0], 0, ZX_TIME_INFINITE, &args, &bytes, &handles));
    request.text[0] = 'A';
    EQ(strcmp(request.text, reply.text), 0);
  }
  return NULL;
}

static void* keep_answering(void* arg) {
  for (int i = 0; i < CALLERS * CALLS; ++i) answer_one(NULL);
  return arg;
}

static void several_callers_get_their_own_answers(void) {
  new_channel(ends);
  pthread_t callers[CALLERS], server;
  int numbers[CALLERS];
  pthread_create(&server, NULL, keep_answering, NULL);
  for (int i = 0; i < CALLERS; ++i) {
    numbers[i] = i;
    pthread_create(&callers[i], NULL, keep_calling, &numbers[i]);
  }
  for (int i = 0; i < CALLERS; ++i) pthread_join(callers[i], NULL);
  pthread_join(server, NULL);
  close_both(ends);
}

int main(void) {
  choose_mode();
  RUN(a_call_gets_its_answer);
  RUN(call_etc_tells_of_handles);
  RUN(checks_in_order);
  RUN(a_past_deadline_still_sends_and_a_late_answer_is_queued);
  RUN(answers_that_do_not_fit_or_have_nowhere_to_go);
  RUN(a_call_that_fails_later_leaves_the_array_alone);
  RUN(calls_end_with_their_handles);
  RUN(a_bad_pointer_to_the_first_four_bytes_sends_nothing);
  RUN_UNLESS_EMULATED(a_call_that_cannot_wait_sends_nothing);
  RUN(several_callers_get_their_own_answers);
  return failures != 0;
}
