/* Between Zircon's handles and the rest of Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZX_H_
#define UNCOPY_ZX_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bad pointers are survived.
 *
 * HANDLERS: the library has handlers of SIGSEGV and SIGBUS, installed by its first call that copies
 * or by this one. They know a fault of the library's own copies by its program counter, and pass
 * everything else on to whoever was there before, or to the default. This costs nothing while
 * pointers are good. It cannot help a thread that has these signals blocked, nor a program that
 * installs other handlers later without calling the ones that it finds.
 * KERNEL: the kernel copies (process_vm_readv(2); where a filter forbids that, through a memfd).
 * It costs about a microsecond for each region, and needs no handlers. */
#define UNCOPY_ZX_FAULT_MODE_AUTO ((uint32_t)0u)
#define UNCOPY_ZX_FAULT_MODE_HANDLERS ((uint32_t)1u)
#define UNCOPY_ZX_FAULT_MODE_KERNEL ((uint32_t)2u)

/* Chooses; AUTO is HANDLERS where they are to be had, else KERNEL. Handlers stay installed when the
 * mode changes. ZX_ERR_NOT_SUPPORTED: no handlers here, KERNEL is in force.
 * ZX_ERR_INVALID_ARGS: another mode. */
zx_status_t uncopy_zx_fault_mode(uint32_t mode);

/* Wraps a descriptor of any kind, to be sent in messages. fd is consumed on success and on failure.
 * The handle's type is ZX_OBJ_TYPE_NONE; it has no signals.
 * ZX_ERR_INVALID_ARGS: fd is not open, or out is bad. */
zx_status_t uncopy_zx_handle_from_fd(int fd, zx_handle_t* out);

/* Gives back the descriptor of such a handle, close-on-exec as it was. The handle is consumed,
 * except if the answer is ZX_ERR_BAD_HANDLE or ZX_ERR_WRONG_TYPE; the caller closes the
 * descriptor. */
zx_status_t uncopy_zx_handle_to_fd(zx_handle_t handle, int* out);

/* The endpoint behind a socket (AF_UNIX, SOCK_SEQPACKET), the far side of uncopy_zx_channel_to_fd.
 * fd is consumed on success and on failure.
 * ZX_ERR_INVALID_ARGS: fd is not open; ZX_ERR_WRONG_TYPE: it is no such socket. */
zx_status_t uncopy_zx_channel_from_fd(int fd, zx_handle_t* out);

/* The endpoint as a socket, for another process to inherit or receive. Messages that are queued for
 * the endpoint go with it. Needs ZX_RIGHT_TRANSFER. The handle is consumed, except if the answer is
 * ZX_ERR_BAD_HANDLE, ZX_ERR_WRONG_TYPE or ZX_ERR_ACCESS_DENIED; the caller closes the descriptor.
 * ZX_ERR_BAD_STATE: messages from a third process lie unread; read them first. */
zx_status_t uncopy_zx_channel_to_fd(zx_handle_t handle, int* out);

/* A descriptor that polls readable (POLLIN) while any of signals is set, for poll(2), epoll(7) and
 * io_uring; and for good once handle is closed or moved. It stays the library's: only poll it, and
 * give it to uncopy_zx_poll_fd_close, never to close(2). Needs ZX_RIGHT_WAIT.
 * ZX_ERR_NO_RESOURCES: no descriptor is left. */
zx_status_t uncopy_zx_poll_fd_create(zx_handle_t handle, zx_signals_t signals, int* out);

/* Closes such a descriptor. ZX_ERR_NOT_FOUND: fd is none. */
zx_status_t uncopy_zx_poll_fd_close(int fd);

typedef struct uncopy_zx_counters {
  /* Handles that are open, and that were ever made. */
  uint64_t handles;
  uint64_t handles_created;
  /* Bad pointers that the handlers made harmless. */
  uint64_t faults;
  /* UNCOPY_ZX_FAULT_MODE_HANDLERS or _KERNEL. */
  uint32_t fault_mode;
  uint32_t reserved;
} uncopy_zx_counters_t;
UNCOPY_ZX_ASSERT(sizeof(uncopy_zx_counters_t) == 32);
UNCOPY_ZX_AT(uncopy_zx_counters_t, faults, 16);
UNCOPY_ZX_AT(uncopy_zx_counters_t, fault_mode, 24);

/* What the library has counted so far. ZX_ERR_INVALID_ARGS: out is bad. */
zx_status_t uncopy_zx_get_counters(uncopy_zx_counters_t* out);

/* The reserved field of a region of a batch: RFC-0010's flat form. */
#define UNCOPY_ZX_BATCH(message_seq, handle_count) \
  ((uint32_t)(uint16_t)(message_seq) | (uint32_t)(uint16_t)(handle_count) << 16)

/* Sends several messages with one wake-up. The reserved field of each region holds, as two 16-bit
 * numbers, the number of its message (the first 0, each next one the same or one more) and, above, how
 * many of the handles go with this region's message. Each message goes as a whole or not at all, in
 * order, and none behind one that failed; actual_messages, which may be NULL, is how many went. All
 * handles are consumed on success and on failure. options must be 0. Needs ZX_RIGHT_WRITE.
 *
 * ZX_ERR_INVALID_ARGS: an option; a pointer is bad; numbers with a gap; counts that do not add up
 *   to num_handles.
 * ZX_ERR_OUT_OF_RANGE: more than 8192 regions in all, or a message beyond its limits.
 * ZX_ERR_BAD_HANDLE: one of the handles is none; nothing is sent.
 * For each message as zx_channel_write. */
zx_status_t uncopy_zx_channel_write_batch(zx_handle_t handle, uint32_t options,
                                          const zx_channel_iovec_t* iovecs, uint32_t num_iovecs,
                                          const zx_handle_t* handles, uint32_t num_handles,
                                          uint32_t* actual_messages);

#ifdef __cplusplus
}
#endif

#endif
