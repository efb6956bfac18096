/* The interface of Zircon's annotations of versions, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_AVAILABILITY_H_
#define UNCOPY_ZIRCON_AVAILABILITY_H_

/* Everything in these headers is available at every level. */
#define ZX_AVAILABLE_SINCE(level)
#define ZX_DEPRECATED_SINCE(...)
#define ZX_REMOVED_SINCE(...)
#define FUCHSIA_API_LEVEL_AT_LEAST(level) 1
#define FUCHSIA_API_LEVEL_LESS_THAN(level) 0

#endif
