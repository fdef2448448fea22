/*
 * vstream.c - one-way stream with credits over a VI
 *
 * Written in the manner of 1999, with the habits that programs of the time have:
 *	- every receive is posted before the connection exists
 *	- the client asks again and again on VIP_NO_MATCH, with no pause
 *	- credits and the end are signals: descriptors with SegCount 0 and immediate data
 *	- receives are posted again with the Status of their last life still in them
 *	- send descriptors not in use hang on a list through CS.Next
 *	- it spins on Done, compares each descriptor with the one expected
 *	- after the disconnect it drains by Done until there is none
 *	- it has global functions of its own named sem_wait, post, err_sys and so on
 *
 * usage: vstream server|client port
 */

#define VIPL095
#include "vipl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NMSG	5000
#define WINDOW	32		/* receives posted at the server */
#define BATCH	8		/* messages a credit signal stands for */
#define BUFSIZE	8192
#define SIG_END	0xE0F
#define SIG_ACK	0xACC

typedef struct {
	VIP_DESCRIPTOR	d;
	char		buf[BUFSIZE];
} SLOT;				/* multiple of 64 bytes */

static VIP_NIC_HANDLE	nic;
static VIP_PROTECTION_HANDLE ptag;
static VIP_VI_HANDLE	vi;
static VIP_MEM_HANDLE	mh;
static SLOT		*recvs, *sends;
static VIP_DESCRIPTOR	*freelist;

/* The library has no business with these. */
int sem_open(void) { abort(); }
int sem_wait(void) { abort(); }
int sem_post(void) { abort(); }
int sem_close(void) { abort(); }
void post(void) { abort(); }

void err_sys(const char *s, int rc)
{
	fprintf(stderr, "vstream: %s: %d\n", s, rc);
	exit(1);
}

#define OK(call)	do { int rc_ = (call); if (rc_ != VIP_SUCCESS) err_sys(#call, rc_); } while (0)

static int msglen(int n)
{
	return (n * 37) % (BUFSIZE + 1);
}

static void put_free(VIP_DESCRIPTOR *d)
{
	d->CS.Next.Address = freelist;
	freelist = d;
}

static VIP_DESCRIPTOR *get_free(void)
{
	VIP_DESCRIPTOR *d;

	while (freelist == NULL) {
		VIP_RETURN rc = VipSendDone(vi, &d);

		if (rc == VIP_SUCCESS)
			put_free(d);
		else if (rc != VIP_NOT_DONE)
			err_sys("VipSendDone", rc);
	}
	d = freelist;
	freelist = (VIP_DESCRIPTOR *) d->CS.Next.Address;
	return d;
}

static void post_recv(SLOT *s)
{
	/* Status is left as it is; Length is the size of the buffer. */
	s->d.CS.Length = BUFSIZE;
	OK(VipPostRecv(vi, &s->d, mh));
}

static void send_signal(VIP_UINT32 imm)
{
	VIP_DESCRIPTOR *d = get_free();

	d->CS.SegCount = 0;
	d->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
	d->CS.Reserved = 0;
	d->CS.ImmediateData = imm;
	d->CS.Length = 0;
	OK(VipPostSend(vi, d, mh));
}

static void send_data(int n)
{
	VIP_DESCRIPTOR *d = get_free();
	char *buf = ((SLOT *) d)->buf;
	int len = msglen(n);

	memset(buf, n, len);
	d->CS.SegCount = 1;
	d->CS.Control = VIP_CONTROL_OP_SENDRECV;
	d->CS.Reserved = 0;
	d->CS.Length = len;
	d->DS[0].Local.Data.Address = buf;
	d->DS[0].Local.Handle = mh;
	d->DS[0].Local.Length = len;
	OK(VipPostSend(vi, d, mh));
}

/* The next message; slots come round in the order of their posting. */
static SLOT *get_message(int n)
{
	SLOT *want = &recvs[n % WINDOW];
	VIP_DESCRIPTOR *d;
	VIP_RETURN rc;

	while ((rc = VipRecvDone(vi, &d)) == VIP_NOT_DONE)
		if (d != NULL)
			err_sys("a descriptor with VIP_NOT_DONE", rc);
	if (rc != VIP_SUCCESS)
		err_sys("VipRecvDone", rc);
	if (d != &want->d)
		err_sys("descriptors out of order", n);
	return want;
}

static void setup(void)
{
	VIP_VI_ATTRIBUTES va;
	VIP_MEM_ATTRIBUTES ma;
	char *mem;
	size_t size = (2 * WINDOW) * sizeof(SLOT);
	int i;

	OK(VipOpenNic("nic0", &nic));
	OK(VipCreatePtag(nic, &ptag));
	mem = malloc(size + VIP_DESCRIPTOR_ALIGNMENT);
	if (mem == NULL)
		err_sys("malloc", 0);
	mem = (char *) (((unsigned long) mem + 63) & ~63UL);
	memset(mem, 0x5A, size);
	ma.Ptag = ptag;
	ma.EnableRdmaWrite = ma.EnableRdmaRead = VIP_FALSE;
	OK(VipRegisterMem(nic, mem, size, &ma, &mh));
	recvs = (SLOT *) mem;
	sends = recvs + WINDOW;

	memset(&va, 0, sizeof(va));
	va.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	va.MaxTransferSize = 32768;
	va.Ptag = ptag;
	OK(VipCreateVi(nic, &va, NULL, NULL, &vi));

	for (i = 0; i < WINDOW; i++) {
		memset(&sends[i].d, 0, sizeof(VIP_DESCRIPTOR));
		put_free(&sends[i].d);
		memset(&recvs[i].d, 0, sizeof(VIP_DESCRIPTOR));
		recvs[i].d.CS.SegCount = 1;
		recvs[i].d.DS[0].Local.Data.Address = recvs[i].buf;
		recvs[i].d.DS[0].Local.Handle = mh;
		recvs[i].d.DS[0].Local.Length = BUFSIZE;
		/* As if it had been used before. */
		recvs[i].d.CS.Status = VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE;
		post_recv(&recvs[i]);
	}
}

static VIP_NET_ADDRESS *make_addr(const char *port)
{
	VIP_NIC_ATTRIBUTES na;
	VIP_NET_ADDRESS *a;

	OK(VipQueryNic(nic, &na));
	a = malloc(sizeof(VIP_NET_ADDRESS) + na.NicAddressLen + na.MaxDiscriminatorLen);
	a->HostAddressLen = na.NicAddressLen;
	memcpy(a->HostAddress, na.LocalNicAddress, na.NicAddressLen);
	a->DiscriminatorLen = strlen(port);
	memcpy(a->HostAddress + a->HostAddressLen, port, a->DiscriminatorLen);
	return a;
}

static int drain(VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **))
{
	VIP_DESCRIPTOR *d;
	int n = 0;

	for (;;) {
		done(vi, &d);
		if (d == NULL)
			return n;
		if (!(d->CS.Status & VIP_STATUS_DONE))
			err_sys("drained but not done", n);
		if (d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR)
			n++;
	}
}

static void server(const char *port)
{
	VIP_NET_ADDRESS *remote = make_addr("");
	VIP_VI_ATTRIBUTES va;
	VIP_CONN_HANDLE conn;
	VIP_VI_STATE state;
	VIP_BOOLEAN se, re;
	long total = 0;
	int n, i;

	OK(VipConnectWait(nic, make_addr(port), VIP_INFINITE, remote, &va, &conn));
	OK(VipConnectAccept(conn, vi));
	for (n = 0; ; n++) {
		SLOT *s = get_message(n);

		if (s->d.CS.Status & VIP_STATUS_IMMEDIATE) {
			if (s->d.CS.ImmediateData != SIG_END || n != NMSG)
				err_sys("not the end", n);
			post_recv(s);
			break;
		}
		if ((int) s->d.CS.Length != msglen(n))
			err_sys("length", n);
		for (i = 0; i < (int) s->d.CS.Length; i++)
			if (s->buf[i] != (char) n)
				err_sys("data", n);
		total += s->d.CS.Length;
		post_recv(s);
		if (n % BATCH == BATCH - 1)
			send_signal(BATCH);
	}
	send_signal(SIG_ACK);
	do
		OK(VipQueryVi(vi, &state, &va, &se, &re));
	while (state == VIP_STATE_CONNECTED);
	n = drain(VipRecvDone);
	drain(VipSendDone);
	OK(VipDisconnect(vi));
	printf("vstream server: %d messages, %ld bytes, %d receives flushed\n", NMSG, total, n);
}

static void client(const char *port)
{
	VIP_VI_ATTRIBUTES va;
	VIP_RETURN rc;
	int credits = WINDOW, signals = 0, n;
	SLOT *s;

	do
		rc = VipConnectRequest(vi, make_addr("me"), make_addr(port), 10000, &va);
	while (rc == VIP_NO_MATCH);
	if (rc != VIP_SUCCESS)
		err_sys("VipConnectRequest", rc);
	for (n = 0; n < NMSG + 1; n++) {
		while (credits == 0) {
			s = get_message(signals++);
			credits += s->d.CS.ImmediateData;
			post_recv(s);
		}
		credits--;
		if (n < NMSG)
			send_data(n);
		else
			send_signal(SIG_END);
	}
	do {
		s = get_message(signals++);
		n = s->d.CS.ImmediateData;
		post_recv(s);
	} while (n != SIG_ACK);
	OK(VipDisconnect(vi));
	n = drain(VipRecvDone);
	drain(VipSendDone);
	printf("vstream client: %d signals, %d receives flushed\n", signals, n);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		err_sys("usage: vstream server|client port", 0);
	setup();
	if (strcmp(argv[1], "server") == 0)
		server(argv[2]);
	else
		client(argv[2]);
	OK(VipDestroyVi(vi));
	OK(VipDeregisterMem(nic, recvs, mh));
	OK(VipDestroyPtag(nic, ptag));
	OK(VipCloseNic(nic));
	return 0;
}
