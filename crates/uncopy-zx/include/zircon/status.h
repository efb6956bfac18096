/* The interface of Zircon's names of statuses, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_STATUS_H_
#define UNCOPY_ZIRCON_STATUS_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of a status ("ZX_ERR_BAD_HANDLE"), or "(UNKNOWN)". The string is never freed. */
const char* zx_status_get_string(zx_status_t status);

#ifdef __cplusplus
}
#endif

#endif
