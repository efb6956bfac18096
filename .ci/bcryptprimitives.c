/* Stands in for bcryptprimitives.dll, which Rust's standard library takes random numbers from and Wine 8 lacks.
   Tests alone use it. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes)
{
    return RtlGenRandom(data, (ULONG)bytes);
}
