/* The interface of Zircon's statuses, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_ERRORS_H_
#define UNCOPY_ZIRCON_ERRORS_H_

/* Success. */
#define ZX_OK (0)
/* A bug in this library. */
#define ZX_ERR_INTERNAL (-1)
/* The object or this system does not support the operation. */
#define ZX_ERR_NOT_SUPPORTED (-2)
/* Descriptors or another resource have run out. */
#define ZX_ERR_NO_RESOURCES (-3)
/* Memory or handle numbers have run out. */
#define ZX_ERR_NO_MEMORY (-4)
/* An argument is invalid, or a pointer is bad. */
#define ZX_ERR_INVALID_ARGS (-10)
/* The value is not a valid handle. */
#define ZX_ERR_BAD_HANDLE (-11)
/* The handle's object is of another type. */
#define ZX_ERR_WRONG_TYPE (-12)
/* The call does not exist. */
#define ZX_ERR_BAD_SYSCALL (-13)
/* A number is outside its range. */
#define ZX_ERR_OUT_OF_RANGE (-14)
/* The caller's buffer is too small. */
#define ZX_ERR_BUFFER_TOO_SMALL (-15)
/* The object's state does not allow it; also for every object that a forked child inherited. */
#define ZX_ERR_BAD_STATE (-20)
/* The deadline passed. */
#define ZX_ERR_TIMED_OUT (-21)
/* The queue is empty (reading) or full (writing); wait and try again. */
#define ZX_ERR_SHOULD_WAIT (-22)
/* The handle was closed or moved meanwhile. */
#define ZX_ERR_CANCELED (-23)
/* The other end is closed. */
#define ZX_ERR_PEER_CLOSED (-24)
/* Not found. */
#define ZX_ERR_NOT_FOUND (-25)
/* It exists already. */
#define ZX_ERR_ALREADY_EXISTS (-26)
/* It is bound already. */
#define ZX_ERR_ALREADY_BOUND (-27)
/* Not available now. */
#define ZX_ERR_UNAVAILABLE (-28)
/* The handle lacks a right. */
#define ZX_ERR_ACCESS_DENIED (-30)
/* The system refused a call. */
#define ZX_ERR_IO (-40)
/* A device refused. */
#define ZX_ERR_IO_REFUSED (-41)
/* Data was damaged. */
#define ZX_ERR_IO_DATA_INTEGRITY (-42)
/* Data is lost. */
#define ZX_ERR_IO_DATA_LOSS (-43)
/* The device is gone. */
#define ZX_ERR_IO_NOT_PRESENT (-44)
/* More data than expected. */
#define ZX_ERR_IO_OVERRUN (-45)
/* A deadline was missed. */
#define ZX_ERR_IO_MISSED_DEADLINE (-46)
/* The data is invalid. */
#define ZX_ERR_IO_INVALID (-47)
/* The path is too long or malformed. */
#define ZX_ERR_BAD_PATH (-50)
/* Not a directory. */
#define ZX_ERR_NOT_DIR (-51)
/* Not a file. */
#define ZX_ERR_NOT_FILE (-52)
/* The file would be too large. */
#define ZX_ERR_FILE_BIG (-53)
/* The filesystem is full. */
#define ZX_ERR_NO_SPACE (-54)
/* The directory is not empty. */
#define ZX_ERR_NOT_EMPTY (-55)
/* Stop the iteration. */
#define ZX_ERR_STOP (-60)
/* Continue with the next one. */
#define ZX_ERR_NEXT (-61)
/* The operation will complete later. */
#define ZX_ERR_ASYNC (-62)
/* The protocol is unknown. */
#define ZX_ERR_PROTOCOL_NOT_SUPPORTED (-70)
/* The address cannot be reached. */
#define ZX_ERR_ADDRESS_UNREACHABLE (-71)
/* The address is in use. */
#define ZX_ERR_ADDRESS_IN_USE (-72)
/* There is no connection. */
#define ZX_ERR_NOT_CONNECTED (-73)
/* The connection was refused. */
#define ZX_ERR_CONNECTION_REFUSED (-74)
/* The connection was reset. */
#define ZX_ERR_CONNECTION_RESET (-75)
/* The connection was aborted. */
#define ZX_ERR_CONNECTION_ABORTED (-76)

#endif
