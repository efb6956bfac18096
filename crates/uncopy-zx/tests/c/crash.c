/* Faults of other code end as they would without this library. */
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static volatile sig_atomic_t heard;
static sigjmp_buf back;

static void hear(int signal) {
  heard = signal;
  siglongjmp(back, 1);
}

static void hear_more(int signal, siginfo_t* info, void* context) {
  heard = signal + 1000 * (info->si_code > 0) + (context == NULL ? 5000 : 0);
  siglongjmp(back, 1);
}

static void just_return(int signal) { heard = signal; }

/* A fault of the library's code, which recovers: the handlers are installed and work. */
static int library_works(void) {
  zx_handle_t ends[2];
  if (zx_channel_create(0, &ends[0], &ends[1]) != ZX_OK) return 0;
  int works = zx_channel_write(ends[0], 0, (void*)1, 1, NULL, 0) == ZX_ERR_INVALID_ARGS &&
              zx_channel_write(ends[0], 0, (void*)0x8000000000000000, 999, NULL, 0) ==
                  ZX_ERR_INVALID_ARGS;
  return works && zx_handle_close(ends[0]) == ZX_OK && zx_handle_close(ends[1]) == ZX_OK;
}

/* A value that the compiler does not know. */
static volatile uintptr_t nowhere = 8;

static void crash(void) { *(volatile int*)nowhere = 1; }

static void bus_error(void) {
  char name[] = "/tmp/uncopy-zx-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  volatile char* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  (void)*page;
}

static void by_default(int signal) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, NULL);
}

/* Runs a child that must end by a signal, or by exit code 0 if that is 0. */
static void ends_by(void (*child)(void), int signal) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(heard == -1 ? 1 : 0);
  }
  int status = -1;
  EQ(waitpid(pid, &status, 0), pid);
  EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
  if (signal == 0) EQ(status, 0);
}

static void default_segv(void) {
  by_default(SIGSEGV);
  if (!library_works()) _exit(9);
  crash();
}

static void default_bus(void) {
  by_default(SIGBUS);
  if (!library_works()) _exit(9);
  bus_error();
}

static void ignored_segv(void) {
  signal(SIGSEGV, SIG_IGN);
  if (!library_works()) _exit(9);
  raise(SIGSEGV);
  crash();
}

static void sent_segv(void) {
  by_default(SIGSEGV);
  if (!library_works()) _exit(9);
  raise(SIGSEGV);
}

static void handled_by_one_argument(void) {
  signal(SIGSEGV, hear);
  if (!library_works() || heard != 0) _exit(9);
  if (sigsetjmp(back, 1) == 0) crash();
  heard = heard == SIGSEGV && library_works() ? 0 : -1;
}

static void handled_by_three_arguments(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = hear_more;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, NULL);
  if (!library_works() || heard != 0) _exit(9);
  if (sigsetjmp(back, 1) == 0) bus_error();
  heard = heard == SIGBUS + 1000 && library_works() ? 0 : -1;
}

static void handled_once(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = just_return;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGSEGV, &action, NULL);
  if (!library_works()) _exit(9);
  crash();
}

static void sent_and_handled(void) {
  signal(SIGSEGV, just_return);
  if (!library_works()) _exit(9);
  raise(SIGSEGV);
  heard = heard == SIGSEGV ? 0 : -1;
}

static void on_an_alternate_stack(void) {
  stack_t stack;
  memset(&stack, 0, sizeof(stack));
  stack.ss_size = 65536;
  stack.ss_sp = malloc(stack.ss_size);
  sigaltstack(&stack, NULL);
  heard = library_works() ? 0 : -1;
}

/* Without sanitizers, which handle the stack themselves. */
#ifndef __SANITIZE_ADDRESS__
static int recurse(volatile int depth) {
  volatile char space[4096];
  space[0] = (char)depth;
  return depth < 0 ? space[0] : recurse(depth + 1) + space[0];
}

static void stack_overflow_is_heard(void) {
  stack_t stack;
  memset(&stack, 0, sizeof(stack));
  stack.ss_size = 65536;
  stack.ss_sp = malloc(stack.ss_size);
  sigaltstack(&stack, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = hear;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGSEGV, &action, NULL);
  if (!library_works() || heard != 0) _exit(9);
  if (sigsetjmp(back, 1) == 0) recurse(0);
  heard = heard == SIGSEGV && library_works() ? 0 : -1;
}
#endif

static void block_both(void) {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGSEGV);
  sigaddset(&both, SIGBUS);
  sigprocmask(SIG_BLOCK, &both, NULL);
}

/* The kernel ends a process for a fault whose signal is blocked, even if it has a handler, as the
 * headers and SECURITY.md say. */
static void blocked_and_beyond_help(void) {
  by_default(SIGSEGV);
  if (uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_HANDLERS) != ZX_OK) _exit(9);
  block_both();
  library_works();
}

static void blocked_but_copied_by_the_kernel(void) {
  block_both();
  heard = uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_KERNEL) == ZX_OK && library_works() ? 0 : -1;
}

static void modes(void) {
  EQ(uncopy_zx_fault_mode(3), ZX_ERR_INVALID_ARGS);
  OK(uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_KERNEL));
  CHECK(library_works());
  uncopy_zx_counters_t before, after;
  OK(uncopy_zx_fault_mode(UNCOPY_ZX_FAULT_MODE_AUTO));
  OK(uncopy_zx_get_counters(&before));
  CHECK(library_works());
  OK(uncopy_zx_get_counters(&after));
  if (after.fault_mode == UNCOPY_ZX_FAULT_MODE_HANDLERS) EQ(after.faults, before.faults + 2);
}

/* No code of the library may run before the children: each installs its own handlers. */
int main(void) {
  if (getenv("UNCOPY_ZX_TEST_KERNEL") != NULL) return 0;
  ends_by(default_segv, SIGSEGV);
  ends_by(default_bus, SIGBUS);
  ends_by(ignored_segv, SIGSEGV);
  ends_by(sent_segv, SIGSEGV);
  ends_by(handled_by_one_argument, 0);
  ends_by(handled_by_three_arguments, 0);
  ends_by(handled_once, SIGSEGV);
  ends_by(sent_and_handled, 0);
  ends_by(on_an_alternate_stack, 0);
#ifndef __SANITIZE_ADDRESS__
  ends_by(stack_overflow_is_heard, 0);
#endif
  ends_by(blocked_and_beyond_help, SIGSEGV);
  ends_by(blocked_but_copied_by_the_kernel, 0);
  RUN(modes);
  return failures != 0;
}
