/* Only under AddressSanitizer: the library's copies report the same errors as memcpy. Each case runs
 * in a child, which the report ends. */
#include <sanitizer/asan_interface.h>
#include <sys/wait.h>

#include "check.h"

/* Resolving symbols takes a second for each report. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "symbolize=0"; }

static zx_handle_t ends[2];
static char* block;
static char* freed;

static void write_beyond(void) { zx_channel_write(ends[0], 0, block, 17, NULL, 0); }

static void write_a_part_beyond(void) {
  zx_channel_iovec_t parts[] = {{block, 16, 0}, {block + 8, 16, 0}};
  zx_channel_write(ends[0], ZX_CHANNEL_WRITE_USE_IOVEC, parts, 2, NULL, 0);
}

static void write_an_array_beyond(void) {
  zx_channel_write(ends[0], ZX_CHANNEL_WRITE_USE_IOVEC, block, 2, NULL, 0);
}

static void write_handles_beyond(void) {
  zx_channel_write(ends[0], 0, NULL, 0, (const zx_handle_t*)(void*)block, 5);
}

static void write_what_was_freed(void) { zx_channel_write(ends[0], 0, freed, 4, NULL, 0); }

static void write_what_the_program_poisoned(void) {
  ASAN_POISON_MEMORY_REGION(block + 8, 8);
  zx_channel_write(ends[0], 0, block, 16, NULL, 0);
}

static void read_beyond(void) {
  OK(zx_channel_write(ends[0], 0, "seventeen letters", 17, NULL, 0));
  zx_channel_read(ends[1], 0, block, NULL, 17, 0, NULL, NULL);
}

static void read_into_what_was_freed(void) {
  OK(zx_channel_write(ends[0], 0, "x", 1, NULL, 0));
  zx_channel_read(ends[1], 0, freed, NULL, 1, 0, NULL, NULL);
}

static void observe_beyond(void) {
  zx_object_wait_one(ends[0], ZX_CHANNEL_WRITABLE, 0, (zx_signals_t*)(void*)(block + 16));
}

static void write_memory_from_beyond(void) {
  zx_handle_t vmo;
  OK(zx_vmo_create(4096, 0, &vmo));
  zx_vmo_write(vmo, block, 0, 17);
}

static void read_memory_beyond(void) {
  zx_handle_t vmo;
  OK(zx_vmo_create(4096, 0, &vmo));
  zx_vmo_read(vmo, block, 0, 17);
}

/* Returns the output of the child; it must not exit normally. */
static void expect_report(const char* name, void (*run)(void), const char* what, const char* how) {
  static char said[1 << 16];
  int out[2];
  EQ(pipe(out), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 2);
    close(out[0]);
    close(out[1]);
    new_channel(ends);
    block = malloc(16);
    freed = malloc(16);
    if (block == NULL || freed == NULL) _exit(0);
    memset(block, 0, 16);
    free(freed);
    run();
    _exit(0);
  }
  close(out[1]);
  size_t length = 0;
  ssize_t count;
  while ((count = read(out[0], said + length, sizeof(said) - 1 - length)) > 0) length += count;
  said[length] = 0;
  close(out[0]);
  int status = 0;
  EQ(waitpid(child, &status, 0), child);
  if (status == 0 || strstr(said, what) == NULL || strstr(said, how) == NULL) {
    fprintf(stderr, "%s ended with %d and said no %s, %s: %s\n", name, status, what, how, said);
    ++failures;
  }
}

static void what_memcpy_would_report_is_reported(void) {
  const char *overflow = "heap-buffer-overflow", *use = "heap-use-after-free";
#define REPORT(run, what, how) expect_report(#run, run, what, how)
  REPORT(write_beyond, overflow, "READ of size 17");
  REPORT(write_a_part_beyond, overflow, "READ of size 16");
  REPORT(write_an_array_beyond, overflow, "READ of size 32");
  REPORT(write_handles_beyond, overflow, "READ of size 20");
  REPORT(write_what_was_freed, use, "READ of size 4");
  REPORT(write_what_the_program_poisoned, "use-after-poison", "READ of size 16");
  REPORT(read_beyond, overflow, "WRITE of size 17");
  REPORT(read_into_what_was_freed, use, "WRITE of size 1");
  REPORT(observe_beyond, overflow, "WRITE of size 4");
  REPORT(write_memory_from_beyond, overflow, "READ of size 17");
  REPORT(read_memory_beyond, overflow, "WRITE of size 17");
}

/* Memory that does not exist gives a status, as without the sanitizer. */
static void bad_pointers_are_answers_still(void) {
  new_channel(ends);
  const uintptr_t bad[] = {1, UINTPTR_MAX, UINTPTR_MAX - 15, (uintptr_t)1 << 63, 0x7fff8000,
                           0x10007fff8000};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    zx_status_t status = zx_channel_write(ends[0], 0, (const void*)bad[i], 8, NULL, 0);
    /* The sanitizer's own memory can be read. */
    if (status == ZX_OK) {
      OK(zx_channel_read(ends[1], 1, NULL, NULL, 0, 0, NULL, NULL) == ZX_OK ? -1 : ZX_OK);
    } else {
      EQ(status, ZX_ERR_INVALID_ARGS);
    }
  }
  char good[16];
  memset(good, 'g', sizeof(good));
  OK(zx_channel_write(ends[0], 0, good, 16, NULL, 0));
  OK(zx_channel_read(ends[1], 0, good, NULL, 16, 0, NULL, NULL));
  close_both(ends);
}

int main(void) {
  choose_mode();
  RUN(what_memcpy_would_report_is_reported);
  RUN(bad_pointers_are_answers_still);
  return failures != 0;
}
