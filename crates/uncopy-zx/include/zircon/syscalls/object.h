/* The interface of Zircon's information on objects, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_OBJECT_H_
#define UNCOPY_ZIRCON_SYSCALLS_OBJECT_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What zx_object_get_info tells. */
typedef uint32_t zx_object_info_topic_t;
#define ZX_INFO_NONE ((zx_object_info_topic_t)0u)
/* Nothing but whether the handle is valid. */
#define ZX_INFO_HANDLE_VALID ((zx_object_info_topic_t)1u)
/* One zx_info_handle_basic_t. */
#define ZX_INFO_HANDLE_BASIC ((zx_object_info_topic_t)2u)
/* One zx_info_handle_count_t. */
#define ZX_INFO_HANDLE_COUNT ((zx_object_info_topic_t)19u)

typedef struct zx_info_handle_basic {
  zx_koid_t koid;
  zx_rights_t rights;
  zx_obj_type_t type;
  /* The other end's, or 0. */
  zx_koid_t related_koid;
  uint32_t reserved;
  uint8_t padding1[4];
} zx_info_handle_basic_t;

typedef struct zx_info_handle_count {
  /* Handles to the object in this process. */
  uint32_t handle_count;
} zx_info_handle_count_t;

/* A name of up to 31 bytes and a zero; of VMOs alone. */
#define ZX_PROP_NAME ((uint32_t)3u)

UNCOPY_ZX_ASSERT(sizeof(zx_info_handle_basic_t) == 32);
UNCOPY_ZX_AT(zx_info_handle_basic_t, koid, 0);
UNCOPY_ZX_AT(zx_info_handle_basic_t, rights, 8);
UNCOPY_ZX_AT(zx_info_handle_basic_t, type, 12);
UNCOPY_ZX_AT(zx_info_handle_basic_t, related_koid, 16);
UNCOPY_ZX_AT(zx_info_handle_basic_t, reserved, 24);
UNCOPY_ZX_AT(zx_info_handle_basic_t, padding1, 28);
UNCOPY_ZX_ASSERT(sizeof(zx_info_handle_count_t) == 4);
UNCOPY_ZX_AT(zx_info_handle_count_t, handle_count, 0);

#ifdef __cplusplus
}
#endif

#endif
