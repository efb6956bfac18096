/* The interface of Zircon's information on objects, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_OBJECT_H_
#define UNCOPY_ZIRCON_SYSCALLS_OBJECT_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Topics of zx_object_get_info. */
typedef uint32_t zx_object_info_topic_t;
#define ZX_INFO_NONE ((zx_object_info_topic_t)0u)
/* No record: only checks the handle. */
#define ZX_INFO_HANDLE_VALID ((zx_object_info_topic_t)1u)
/* One zx_info_handle_basic_t. */
#define ZX_INFO_HANDLE_BASIC ((zx_object_info_topic_t)2u)
/* One zx_info_handle_count_t. */
#define ZX_INFO_HANDLE_COUNT ((zx_object_info_topic_t)19u)
/* One zx_info_socket_t. */
#define ZX_INFO_SOCKET ((zx_object_info_topic_t)22u)

typedef struct zx_info_handle_basic {
  zx_koid_t koid;
  zx_rights_t rights;
  zx_obj_type_t type;
  /* Number of the other end, or 0. */
  zx_koid_t related_koid;
  uint32_t reserved;
  uint8_t padding1[4];
} zx_info_handle_basic_t;

typedef struct zx_info_handle_count {
  /* Number of handles to the object in this process. */
  uint32_t handle_count;
} zx_info_handle_count_t;

typedef struct zx_info_socket {
  /* ZX_SOCKET_STREAM or ZX_SOCKET_DATAGRAM. */
  uint32_t options;
  uint8_t padding1[4];
  /* Maximum and current number of unread bytes at this end. If the other end is in another process:
   * the bytes that were received, which are all that have arrived, as far as there is room. */
  size_t rx_buf_max;
  size_t rx_buf_size;
  /* Number of bytes that one read can return: for datagrams, the size of the next. */
  size_t rx_buf_available;
  /* The same for the bytes that this end writes; 0 if the other end is closed. If it is in another
   * process: capacity and use of the kernel's socket, including the kernel's overhead. */
  size_t tx_buf_max;
  size_t tx_buf_size;
} zx_info_socket_t;

/* Properties, for zx_object_get_property and zx_object_set_property. */

/* A name of up to 31 bytes and a zero; only for VMOs. */
#define ZX_PROP_NAME ((uint32_t)3u)
/* For sockets, a size_t: the number of unread bytes from which ZX_SOCKET_READ_THRESHOLD is set, and
 * the room from which ZX_SOCKET_WRITE_THRESHOLD is set; 0: never. They belong to an end in this
 * process, and do not move with it. ZX_ERR_INVALID_ARGS: more than the capacity. ZX_ERR_PEER_CLOSED,
 * ZX_ERR_NOT_SUPPORTED: the write threshold, if the other end is closed or in another process. */
#define ZX_PROP_SOCKET_RX_THRESHOLD ((uint32_t)12u)
#define ZX_PROP_SOCKET_TX_THRESHOLD ((uint32_t)13u)
/* For VMOs, a uint64_t: see zx_vmo_get_stream_size. */
#define ZX_PROP_VMO_CONTENT_SIZE ((uint32_t)17u)

UNCOPY_ZX_ASSERT(sizeof(zx_info_handle_basic_t) == 32);
UNCOPY_ZX_AT(zx_info_handle_basic_t, koid, 0);
UNCOPY_ZX_AT(zx_info_handle_basic_t, rights, 8);
UNCOPY_ZX_AT(zx_info_handle_basic_t, type, 12);
UNCOPY_ZX_AT(zx_info_handle_basic_t, related_koid, 16);
UNCOPY_ZX_AT(zx_info_handle_basic_t, reserved, 24);
UNCOPY_ZX_AT(zx_info_handle_basic_t, padding1, 28);
#if UINTPTR_MAX == UINT64_MAX
UNCOPY_ZX_ASSERT(sizeof(zx_info_socket_t) == 48);
UNCOPY_ZX_AT(zx_info_socket_t, options, 0);
UNCOPY_ZX_AT(zx_info_socket_t, padding1, 4);
UNCOPY_ZX_AT(zx_info_socket_t, rx_buf_max, 8);
UNCOPY_ZX_AT(zx_info_socket_t, rx_buf_size, 16);
UNCOPY_ZX_AT(zx_info_socket_t, rx_buf_available, 24);
UNCOPY_ZX_AT(zx_info_socket_t, tx_buf_max, 32);
UNCOPY_ZX_AT(zx_info_socket_t, tx_buf_size, 40);
#endif
UNCOPY_ZX_ASSERT(sizeof(zx_info_handle_count_t) == 4);
UNCOPY_ZX_AT(zx_info_handle_count_t, handle_count, 0);

#ifdef __cplusplus
}
#endif

#endif
