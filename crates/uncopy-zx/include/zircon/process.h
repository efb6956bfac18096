/* The interface of Zircon's handles to the own process, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_PROCESS_H_
#define UNCOPY_ZIRCON_PROCESS_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Always return ZX_HANDLE_INVALID, because tasks are not objects here. */
zx_handle_t zx_process_self(void);
zx_handle_t zx_thread_self(void);
zx_handle_t zx_job_default(void);

/* Returns the handle of the whole address space of this process. Only zx_vmar_map and zx_vmar_unmap
 * take it; it is not an object, and cannot be closed, duplicated or sent. */
zx_handle_t zx_vmar_root_self(void);

#ifdef __cplusplus
}
#endif

#endif
