/* The interface of Zircon's annotations of versions, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_AVAILABILITY_H_
#define UNCOPY_ZIRCON_AVAILABILITY_H_

/* Everything that is here is available. */
#define ZX_AVAILABLE_SINCE(level)
#define ZX_DEPRECATED_SINCE(...)
#define ZX_REMOVED_SINCE(...)

#endif
