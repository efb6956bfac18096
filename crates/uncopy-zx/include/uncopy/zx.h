/* Extensions for Linux that Zircon does not have. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZX_H_
#define UNCOPY_ZX_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bad pointers are handled.
 *
 * HANDLERS: the library has handlers of SIGSEGV and SIGBUS, installed by its first call that copies
 * or by this one. They recognise a fault of the library's own copies by its program counter, and
 * pass every other signal to the previous handler, or perform the default action. This costs nothing
 * while pointers are good. It does not work in a thread that has these signals blocked, nor in a
 * program that installs other handlers later which do not call the previous ones.
 * KERNEL: the kernel copies (process_vm_readv(2), or through a memfd if a filter forbids that).
 * It costs about a microsecond for each region, and needs no handlers. */
#define UNCOPY_ZX_FAULT_MODE_AUTO ((uint32_t)0u)
#define UNCOPY_ZX_FAULT_MODE_HANDLERS ((uint32_t)1u)
#define UNCOPY_ZX_FAULT_MODE_KERNEL ((uint32_t)2u)

/* Chooses the mode; AUTO is HANDLERS if available, otherwise KERNEL. Handlers stay installed when the
 * mode changes. ZX_ERR_NOT_SUPPORTED: handlers are not available; KERNEL is used.
 * ZX_ERR_INVALID_ARGS: another mode. */
zx_status_t uncopy_zx_fault_mode(uint32_t mode);

/* Wraps a descriptor of any kind, to be sent in messages. fd is consumed on success and on failure.
 * The handle's type is ZX_OBJ_TYPE_NONE; it has no signals.
 * ZX_ERR_INVALID_ARGS: fd is not open, or out is bad. */
zx_status_t uncopy_zx_handle_from_fd(int fd, zx_handle_t* out);

/* Returns the descriptor of such a handle; its close-on-exec flag is not changed. The handle is
 * consumed, except with ZX_ERR_BAD_HANDLE or ZX_ERR_WRONG_TYPE; the caller closes the descriptor. */
zx_status_t uncopy_zx_handle_to_fd(zx_handle_t handle, int* out);

/* Makes an endpoint of a socket (AF_UNIX, SOCK_SEQPACKET) that uncopy_zx_channel_to_fd returned in
 * another process. fd is consumed on success and on failure.
 * ZX_ERR_INVALID_ARGS: fd is not open; ZX_ERR_WRONG_TYPE: it is not such a socket. */
zx_status_t uncopy_zx_channel_from_fd(int fd, zx_handle_t* out);

/* Turns an endpoint into a socket, for another process to inherit or receive. Messages that are
 * queued for the endpoint move with it. Needs ZX_RIGHT_TRANSFER. The handle is consumed, except with
 * ZX_ERR_BAD_HANDLE, ZX_ERR_WRONG_TYPE or ZX_ERR_ACCESS_DENIED; the caller closes the descriptor.
 * ZX_ERR_BAD_STATE: it has unread messages from a third process; read them first. */
zx_status_t uncopy_zx_channel_to_fd(zx_handle_t handle, int* out);

/* Makes a descriptor that polls readable (POLLIN) while any of signals is set, for poll(2), epoll(7)
 * and io_uring. Once handle is closed or moved it stays readable. The library owns it: only poll it,
 * and close it with uncopy_zx_poll_fd_close, never with close(2). Needs ZX_RIGHT_WAIT.
 * ZX_ERR_NO_RESOURCES: descriptors have run out. */
zx_status_t uncopy_zx_poll_fd_create(zx_handle_t handle, zx_signals_t signals, int* out);

/* Closes such a descriptor. ZX_ERR_NOT_FOUND: fd is not one. */
zx_status_t uncopy_zx_poll_fd_close(int fd);

/* Seals size and contents of a VMO for every process, after allocating what was never written. This
 * cannot be undone. Sealed memory is mapped for reading only, and no holder can change it under a
 * reader. Needs ZX_RIGHT_WRITE.
 * ZX_ERR_BAD_STATE: it is mapped for writing, or a device or pipe holds its pages.
 * ZX_ERR_NOT_SUPPORTED: it was made by another library so that it takes no seals. */
zx_status_t uncopy_zx_vmo_seal(zx_handle_t handle);

typedef struct uncopy_zx_counters {
  /* Number of open handles, and of handles ever created. */
  uint64_t handles;
  uint64_t handles_created;
  /* Number of bad pointers that the handlers recovered from. */
  uint64_t faults;
  /* UNCOPY_ZX_FAULT_MODE_HANDLERS or _KERNEL. */
  uint32_t fault_mode;
  uint32_t reserved;
} uncopy_zx_counters_t;
UNCOPY_ZX_ASSERT(sizeof(uncopy_zx_counters_t) == 32);
UNCOPY_ZX_AT(uncopy_zx_counters_t, faults, 16);
UNCOPY_ZX_AT(uncopy_zx_counters_t, fault_mode, 24);

/* Returns the counters of the library. ZX_ERR_INVALID_ARGS: out is bad. */
zx_status_t uncopy_zx_get_counters(uncopy_zx_counters_t* out);

/* Value of the reserved field of a region in a batch: RFC-0010's flat form. */
#define UNCOPY_ZX_BATCH(message_seq, handle_count) \
  ((uint32_t)(uint16_t)(message_seq) | (uint32_t)(uint16_t)(handle_count) << 16)

/* Sends several messages with one wake-up. The reserved field of each region contains two 16-bit
 * numbers: in the low half the index of its message (0 for the first region, then the same or the
 * next), in the high half the number of handles to add to this region's message. Each message is
 * sent whole or not at all, in order, and none after one that failed; actual_messages, which may be
 * NULL, receives how many were sent. All handles are consumed on success and on failure. options must
 * be 0. Needs ZX_RIGHT_WRITE.
 *
 * ZX_ERR_INVALID_ARGS: options is not 0; a pointer is bad; indexes with a gap; handle counts whose
 *   sum is not num_handles.
 * ZX_ERR_OUT_OF_RANGE: more than 8192 regions in total, or a message above its limits.
 * ZX_ERR_BAD_HANDLE: one of the handles is not valid; nothing is sent.
 * For each message as zx_channel_write. */
zx_status_t uncopy_zx_channel_write_batch(zx_handle_t handle, uint32_t options,
                                          const zx_channel_iovec_t* iovecs, uint32_t num_iovecs,
                                          const zx_handle_t* handles, uint32_t num_handles,
                                          uint32_t* actual_messages);

/* Room for a part of a message; reserved must be 0. */
typedef struct uncopy_zx_region {
  void* buffer;
  uint32_t capacity;
  uint32_t reserved;
} uncopy_zx_region_t;
UNCOPY_ZX_ASSERT(sizeof(uncopy_zx_region_t) == 16 || sizeof(void*) != 8);

/* Takes the next message as zx_channel_read does, its bytes spread over several regions, each filled
 * before the next; the room is the sum of all. Behind the end of the message nothing is written. The
 * array is read once, before the message is taken.
 *
 * ZX_ERR_OUT_OF_RANGE: more than 8192 regions.
 * ZX_ERR_INVALID_ARGS: the array cannot be read, or a reserved field is not 0: the message stays
 *   queued. A bad pointer to room, handles or sizes: the message is lost, its handles are closed.
 * As zx_channel_read, whose checks of handle and options come first. */
zx_status_t uncopy_zx_channel_read_scattered(zx_handle_t handle, uint32_t options,
                                             const uncopy_zx_region_t* regions,
                                             uint32_t num_regions, zx_handle_t* handles,
                                             uint32_t num_handles, uint32_t* actual_bytes,
                                             uint32_t* actual_handles);

#ifdef __cplusplus
}
#endif

#endif
