/* The cost of messages in C: the part of `cargo xtask compare zx` that calls the library.
 *
 * messages WHAT BYTES REGIONS MILLISECONDS prints the mean time of one message as JSON, over about
 * MILLISECONDS after an eighth of that to warm up. WHAT is
 *   linear   the regions copied into one buffer, which is written, waited for and read
 *   iovec    the regions written without copying them first, waited for and read
 *   write    the regions written with zx_channel_write_etc; reading them is not counted
 *   write_etc, call, call_etc   the regions sent by that call, and read; the deadline of a call has passed
 * With SOCKET as a fifth word, there is a socket between the two ends; with JOINED as a sixth, the last three
 * copy the regions into one buffer first.
 * The regions have the same length, and the last one the rest; REGIONS 0 stands for the three of a
 * FIDL byte vector: 16 bytes of header, 16 of the vector itself, and its contents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uncopy/zx.h>
#include <zircon/status.h>
#include <zircon/syscalls.h>

/* Number of messages that are written before they are read, if only writing counts. */
#define WRITES 8

static zx_handle_t near_end, far_end, port;
static zx_channel_iovec_t* parts;
static uint32_t num_parts, num_bytes;
static char* linear;
static char* back;

static void check(zx_status_t status, const char* what) {
  if (status != ZX_OK) {
    fprintf(stderr, "%s: %s\n", what, zx_status_get_string(status));
    exit(1);
  }
}

/* Sends one message and waits for it through the port. */
static void receive(void) {
  zx_port_packet_t packet;
  uint32_t actual = 0;
  check(zx_object_wait_async(far_end, port, 1, ZX_CHANNEL_READABLE, 0), "zx_object_wait_async");
  check(zx_port_wait(port, ZX_TIME_INFINITE, &packet), "zx_port_wait");
  check(zx_channel_read(far_end, 0, back, NULL, num_bytes, 0, &actual, NULL), "zx_channel_read");
  if (packet.key != 1 || actual != num_bytes) {
    fprintf(stderr, "%u bytes came of %u\n", actual, num_bytes);
    exit(1);
  }
}

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Returns the nanoseconds for `count` messages. */
typedef double measured_t(long count);

static void join_parts(void) {
  char* end = linear;
  for (uint32_t part = 0; part < num_parts; ++part) {
    memcpy(end, parts[part].buffer, parts[part].capacity);
    end += parts[part].capacity;
  }
}

static double send_linear(long count) {
  double begin = now(CLOCK_MONOTONIC);
  for (long i = 0; i < count; ++i) {
    join_parts();
    check(zx_channel_write(near_end, 0, linear, num_bytes, NULL, 0), "zx_channel_write");
    receive();
  }
  return now(CLOCK_MONOTONIC) - begin;
}

static double send_parts(long count) {
  double begin = now(CLOCK_MONOTONIC);
  for (long i = 0; i < count; ++i) {
    check(zx_channel_write(near_end, ZX_CHANNEL_WRITE_USE_IOVEC, parts, num_parts, NULL, 0),
          "zx_channel_write");
    receive();
  }
  return now(CLOCK_MONOTONIC) - begin;
}

/* Sends a message of regions, or of one buffer. */
typedef zx_status_t send_t(uint32_t options, const void* bytes, uint32_t count);

static zx_status_t by_write_etc(uint32_t options, const void* bytes, uint32_t count) {
  return zx_channel_write_etc(near_end, options, bytes, count, NULL, 0);
}

/* The deadline of a call has passed. */
static zx_status_t by_call(uint32_t options, const void* bytes, uint32_t count) {
  uint32_t actual, handles;
  zx_channel_call_args_t args = {bytes, NULL, back, NULL, count, 0, num_bytes, 0};
  zx_status_t status = zx_channel_call(near_end, options, 0, &args, &actual, &handles);
  return status == ZX_ERR_TIMED_OUT ? ZX_OK : ZX_ERR_BAD_STATE;
}

static zx_status_t by_call_etc(uint32_t options, const void* bytes, uint32_t count) {
  uint32_t actual, handles;
  zx_channel_call_etc_args_t args = {bytes, NULL, back, NULL, count, 0, num_bytes, 0};
  zx_status_t status = zx_channel_call_etc(near_end, options, 0, &args, &actual, &handles);
  return status == ZX_ERR_TIMED_OUT ? ZX_OK : ZX_ERR_BAD_STATE;
}

static const struct {
  const char* word;
  send_t* send;
} sends[] = {{"write_etc", by_write_etc}, {"call", by_call}, {"call_etc", by_call_etc}};

static send_t* chosen;
static int is_joined;

static double send_chosen(long count) {
  double begin = now(CLOCK_MONOTONIC);
  for (long i = 0; i < count; ++i) {
    if (is_joined) {
      join_parts();
      check(chosen(0, linear, num_bytes), "the call");
    } else {
      check(chosen(ZX_CHANNEL_WRITE_USE_IOVEC, parts, num_parts), "the call");
    }
    check(zx_channel_read(far_end, 0, back, NULL, num_bytes, 0, NULL, NULL), "zx_channel_read");
  }
  return now(CLOCK_MONOTONIC) - begin;
}

static double write_parts(long count) {
  double spent = 0;
  for (long i = 0; i < count; i += WRITES) {
    double begin = now(CLOCK_MONOTONIC);
    for (int each = 0; each < WRITES; ++each) {
      check(zx_channel_write_etc(near_end, ZX_CHANNEL_WRITE_USE_IOVEC, parts, num_parts, NULL, 0),
            "zx_channel_write_etc");
    }
    spent += now(CLOCK_MONOTONIC) - begin;
    for (int each = 0; each < WRITES; ++each) {
      check(zx_channel_read(far_end, 0, back, NULL, num_bytes, 0, NULL, NULL), "zx_channel_read");
    }
  }
  /* The last round is always complete. */
  long whole = (count + WRITES - 1) / WRITES * WRITES;
  return spent / (double)whole * (double)count;
}

static void make_parts(uint32_t bytes, uint32_t regions) {
  int is_vector = regions == 0;
  if (is_vector) regions = 3;
  char* memory = malloc(bytes);
  parts = calloc(regions, sizeof(*parts));
  linear = malloc(bytes);
  back = malloc(bytes);
  if (memory == NULL || parts == NULL || linear == NULL || back == NULL) exit(1);
  memset(memory, 1, bytes);
  memset(back, 0, bytes);
  num_bytes = bytes;
  num_parts = regions;
  for (uint32_t i = 0; i < regions; ++i) {
    uint32_t each = is_vector ? 16 : bytes / regions;
    parts[i].buffer = memory + (size_t)i * each;
    parts[i].capacity = i + 1 == regions ? bytes - i * each : each;
  }
}

int main(int count, char** words) {
  if (count < 5 || count > 7) {
    fprintf(stderr, "messages WHAT BYTES REGIONS MILLISECONDS [SOCKET [JOINED]]\n");
    return 2;
  }
  uint32_t bytes = (uint32_t)strtoul(words[2], NULL, 10);
  uint32_t regions = (uint32_t)strtoul(words[3], NULL, 10);
  double wanted = strtod(words[4], NULL) * 1e6;
  int is_write = strcmp(words[1], "write") == 0;
  if (bytes < 48 || regions > bytes || bytes > ZX_CHANNEL_MAX_MSG_BYTES) return 2;
  measured_t* run = is_write                           ? write_parts
                    : strcmp(words[1], "linear") == 0 ? send_linear
                                                      : send_parts;
  for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); ++i) {
    if (strcmp(words[1], sends[i].word) == 0) {
      chosen = sends[i].send;
      run = send_chosen;
    }
  }
  is_joined = count == 7;
  make_parts(bytes, regions);
  check(zx_channel_create(0, &near_end, &far_end), "zx_channel_create");
  if (count >= 6) {
    int fd = -1;
    check(uncopy_zx_channel_to_fd(far_end, &fd), "uncopy_zx_channel_to_fd");
    check(uncopy_zx_channel_from_fd(fd, &far_end), "uncopy_zx_channel_from_fd");
  }
  check(zx_port_create(0, &port), "zx_port_create");
  long messages = WRITES;
  double time;
  while ((time = run(messages)) * 8 < wanted) messages *= 2;
  messages = (long)(wanted / (time / (double)messages)) + 1;
  double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  time = run(messages);
  cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  printf("{\"nanoseconds\":%.3f,\"cpu_nanoseconds\":%.3f}\n", time / (double)messages,
         cpu / (double)messages);
  return 0;
}
