/*
 * viplx.h - what this implementation adds to VIPL. Include it after or instead of vipl.h.
 *
 * Every name begins with Vipx: a program that uses one runs on this library alone.
 * Reference: docs/vipl.md.
 */

#ifndef VIPLX_H
#define VIPLX_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Memory that a peer on this machine reaches directly: a message into it is written once. It
 * begins on a page and is zero. Register it with VipRegisterMem like any other memory, and
 * deregister it before it is freed. What is not freed goes when the NIC is closed.
 */
VIP_RETURN VipxAllocateShared(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG Length,
                              OUT VIP_PVOID *VirtualAddress);
VIP_RETURN VipxFreeShared(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress);

/*
 * Flow control: sends wait in their queue until the peer has a receive posted, where they would
 * be dropped or break the connection. Idle VIs only; off at first. Set it on the VI that sends.
 */
VIP_RETURN VipxSetFlowControl(IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN Enable);

/*
 * Request splitting: a message longer than the first receive continues in the receives behind it,
 * where it would end in VIP_STATUS_LENGTH_ERROR. Idle VIs only; off at first. Set it on the VI
 * that receives.
 */
VIP_RETURN VipxSetRequestSplitting(IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN Enable);

/*
 * For programs that mix protection tags: while on, a VI may have Ptag 0, which matches every
 * region of its NIC handle; a region registered with Ptag 0 gets the NIC's default tag. Off at
 * first. The environment variable VIADUCT_VIPL_TAG0=1 turns it on for a program that cannot be
 * changed.
 */
VIP_RETURN VipxAcceptTagZero(IN VIP_BOOLEAN Enable);

/* The name of a return code, such as "VIP_SUCCESS"; of any other number, a text that says so. */
const VIP_CHAR *VipxReturnName(IN VIP_RETURN Code);

#ifdef __cplusplus
}
#endif

#endif
