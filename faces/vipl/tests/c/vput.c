/*
 * vput.c - messages by RDMA write, noticed by looking at memory
 *
 * Written in the manner of 1999:
 *	- the target of a write makes no VIPL call: it spins on a word of its own memory
 *	- the word is the last of the message itself, or a second write of its own
 *	- memory handles and addresses go to the peer as plain integers
 *	- memory is registered without attributes, and VIs have protection tag 0 (which needs
 *	  VIADUCT_VIPL_TAG0=1: without it VipCreateVi returns VIP_INVALID_PTAG)
 *	- the two sides are equals: VipConnectPeerRequest on both
 *
 * usage: vput left|right port
 */

#include "vipl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS	2000
#define MAXMSG	16384

struct inbox {
	char		data[MAXMSG];	/* flag is the last word of a message that fills data */
	volatile int	flag;		/* or is written by itself */
	char		pad[60];
};

struct where {
	VIP_UINT64	addr;
	VIP_UINT32	handle;
	VIP_UINT32	rounds;
};

static VIP_NIC_HANDLE	nic;
static VIP_VI_HANDLE	vi;
static struct inbox	*in, *out;
static char		*descs;
static VIP_MEM_HANDLE	inmh, outmh, dmh;
static struct where	peer;
static int		now;

static void fatal(const char *what, int rc)
{
	fprintf(stderr, "vput: round %d: %s: %d\n", now, what, rc);
	exit(1);
}

#define TRY(call)	do { int rc_ = (call); if (rc_) fatal(#call, rc_); } while (0)

static void finish(void)
{
	VIP_DESCRIPTOR *d;
	VIP_RETURN rc;

	while ((rc = VipSendDone(vi, &d)) == VIP_NOT_DONE)
		;
	if (rc != VIP_SUCCESS)
		fatal("VipSendDone", d ? (int) d->CS.Status : -1);
	if ((d->CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_RDMA_WRITE)
		fatal("status", d->CS.Status);
}

/* Writes bytes of out to the same place in the peer's inbox. */
static void put(int which, size_t from, size_t bytes)
{
	VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *) (descs + 64 * which);

	d->CS.SegCount = 2;
	d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
	d->CS.Reserved = 0;
	d->CS.Length = bytes;
	d->DS[0].Remote.Data.AddressBits = peer.addr + from;
	d->DS[0].Remote.Handle = peer.handle;
	d->DS[0].Remote.Reserved = 0;
	d->DS[1].Local.Data.Address = (char *) out + from;
	d->DS[1].Local.Handle = outmh;
	d->DS[1].Local.Length = bytes;
	TRY(VipPostSend(vi, d, dmh));
}

static int size_of(int round)
{
	return (round * 61) % MAXMSG;
}

static void put_message(int round)
{
	int n = size_of(round);

	memset(out->data, round, MAXMSG);
	out->flag = round + 1;
	if (round & 1) {
		/* One write: the flag is its last word. */
		put(0, MAXMSG - n, n + sizeof(int));
		finish();
	} else {
		/* Two writes, the second is the flag. */
		put(0, MAXMSG - n, n);
		put(1, MAXMSG, sizeof(int));
		finish();
		finish();
	}
}

static void see_message(int round)
{
	int n = size_of(round), i;

	while (in->flag != round + 1)
		;
	__sync_synchronize();
	for (i = MAXMSG - n; i < MAXMSG; i++)
		if (in->data[i] != (char) round)
			fatal("byte", (i << 8) + (in->data[i] & 0xFF));
	/* Nothing in front of the message was touched. */
	if (n < MAXMSG && in->data[MAXMSG - n - 1] != 0x11)
		fatal("byte in front", round);
	memset(in->data, 0x11, MAXMSG);
}

static void address(VIP_NET_ADDRESS *a, const char *side, const char *port)
{
	VIP_NIC_ATTRIBUTES na;

	TRY(VipQueryNic(nic, &na));
	a->HostAddressLen = na.NicAddressLen;
	memcpy(a->HostAddress, na.LocalNicAddress, na.NicAddressLen);
	sprintf((char *) a->HostAddress + na.NicAddressLen, "%s%s", side, port);
	a->DiscriminatorLen = strlen(side) + strlen(port);
}

static void tell_and_learn(void)
{
	VIP_DESCRIPTOR *r = (VIP_DESCRIPTOR *) (descs + 128);
	VIP_DESCRIPTOR *s = (VIP_DESCRIPTOR *) (descs + 192);
	struct where *mine = (struct where *) (descs + 256);
	VIP_DESCRIPTOR *d;

	mine->addr = (VIP_UINT64) (unsigned long) in;
	mine->handle = inmh;
	mine->rounds = ROUNDS;
	s->CS.SegCount = 1;
	s->CS.Length = sizeof(*mine);
	s->DS[0].Local.Data.Address = mine;
	s->DS[0].Local.Handle = dmh;
	s->DS[0].Local.Length = sizeof(*mine);
	TRY(VipPostSend(vi, s, dmh));
	TRY(VipSendWait(vi, VIP_INFINITE, &d));
	TRY(VipRecvWait(vi, VIP_INFINITE, &d));
	if (d != r || d->CS.Length != sizeof(peer))
		fatal("the peer's word", d->CS.Length);
	memcpy(&peer, descs + 320, sizeof(peer));
}

static void prepare(void)
{
	VIP_VI_ATTRIBUTES va;
	VIP_MEM_ATTRIBUTES ma;
	VIP_DESCRIPTOR *r;
	void *p;

	TRY(VipOpenNic("/dev/via_lo", &nic));
	TRY(posix_memalign(&p, 4096, 4096));
	descs = memset(p, 0, 4096);
	TRY(posix_memalign(&p, 4096, sizeof(*in)));
	in = memset(p, 0, sizeof(*in));
	memset(in->data, 0x11, MAXMSG);
	TRY(posix_memalign(&p, 4096, sizeof(*out)));
	out = memset(p, 0, sizeof(*out));
	TRY(VipRegisterMem(nic, descs, 4096, NULL, &dmh));
	TRY(VipRegisterMem(nic, out, sizeof(*out), NULL, &outmh));
	ma.Ptag = 0;
	ma.EnableRdmaWrite = VIP_TRUE;
	ma.EnableRdmaRead = VIP_FALSE;
	TRY(VipRegisterMem(nic, in, sizeof(*in), &ma, &inmh));
	memset(&va, 0, sizeof(va));
	va.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	va.MaxTransferSize = 32768;
	va.EnableRdmaWrite = VIP_TRUE;
	TRY(VipCreateVi(nic, &va, NULL, NULL, &vi));
	r = (VIP_DESCRIPTOR *) (descs + 128);
	r->CS.SegCount = 1;
	r->DS[0].Local.Data.Address = descs + 320;
	r->DS[0].Local.Handle = dmh;
	r->DS[0].Local.Length = sizeof(peer);
	TRY(VipPostRecv(vi, r, dmh));
}

int main(int argc, char **argv)
{
	long mine[8], theirs[8];
	VIP_VI_ATTRIBUTES va;
	VIP_DESCRIPTOR *d;
	int left, round;

	if (argc != 3 || strlen(argv[2]) > 40)
		fatal("usage: vput left|right port", 0);
	left = strcmp(argv[1], "left") == 0;
	prepare();
	address((VIP_NET_ADDRESS *) mine, left ? "l" : "r", argv[2]);
	address((VIP_NET_ADDRESS *) theirs, left ? "r" : "l", argv[2]);
	TRY(VipConnectPeerRequest(vi, (VIP_NET_ADDRESS *) mine, (VIP_NET_ADDRESS *) theirs, 30000));
	TRY(VipConnectPeerWait(vi, &va));
	if (!va.EnableRdmaWrite)
		fatal("the peer does not take writes", 0);
	tell_and_learn();
	for (round = 0; round < ROUNDS; round++) {
		now = round;
		if (left)
			put_message(round);
		see_message(round);
		if (!left)
			put_message(round);
	}
	printf("vput %s: %d messages each way\n", argv[1], ROUNDS);
	if (!left) {
		/* The other side leaves first: the last message must arrive. */
		VIP_VI_STATE state;
		VIP_BOOLEAN se, re;

		do
			TRY(VipQueryVi(vi, &state, &va, &se, &re));
		while (state == VIP_STATE_CONNECTED);
	}
	TRY(VipDisconnect(vi));
	if (VipRecvDone(vi, &d) != VIP_DESCRIPTOR_ERROR || d != NULL)
		fatal("something is left", 0);
	TRY(VipDestroyVi(vi));
	TRY(VipDeregisterMem(nic, in, inmh));
	TRY(VipDeregisterMem(nic, out, outmh));
	TRY(VipDeregisterMem(nic, descs, dmh));
	TRY(VipCloseNic(nic));
	return 0;
}
