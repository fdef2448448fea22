/*
 * vthreads.c - a threaded server with one completion queue
 *
 * Written in the manner of 1999, in the other spelling of descriptors (Control, Data):
 *	- the NIC is opened twice in a process, one handle for the server, one for its own clients
 *	- one thread sits in VipCQWait(VIP_INFINITE) while others connect, send and receive
 *	- receive queues are on the completion queue, send queues are not
 *	- VIs of one process are connected to one another
 *	- the entry's handle is looked up among those of VipCreateVi
 *	- addresses of six bytes in buffers of 40, the name service is shut down before connecting
 *	- VIs, completion queue and memory go without being drained
 *
 * usage: vthreads server|client port
 * The server has two clients in threads of its own and two in the other process.
 */

#include <vipl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCAL	2
#define REMOTE	2
#define NCLI	(LOCAL + REMOTE)
#define NREQ	500
#define BYE	77

static const char *port;

static void die(const char *what, int rc)
{
	fprintf(stderr, "vthreads: %s: %d\n", what, rc);
	exit(1);
}

#define CHECK(call)	do { int rc_ = (call); if (rc_) die(#call, rc_); } while (0)

/* One end: a VI, and a page with its descriptors and words. */
struct end {
	VIP_NIC_HANDLE	nic;
	VIP_VI_HANDLE	vi;
	VIP_MEM_HANDLE	mh;
	char		*page;
};

#define RDESC(e)	((VIP_DESCRIPTOR *) (e)->page)
#define SDESC(e)	((VIP_DESCRIPTOR *) ((e)->page + 64))
#define RWORD(e)	((int *) ((e)->page + 128))
#define SWORD(e)	((int *) ((e)->page + 192))

static void fill(struct end *e, VIP_DESCRIPTOR *d, int *word)
{
	memset(&d->Control, 0, sizeof d->Control);
	d->Control.SegCount = 1;
	d->Control.Length = sizeof(int);
	d->Data[0].Data.Address = word;
	d->Data[0].Handle = e->mh;
	d->Data[0].Length = sizeof(int);
}

static void post_recv(struct end *e)
{
	fill(e, RDESC(e), RWORD(e));
	CHECK(VipPostRecv(e->vi, RDESC(e), e->mh));
}

static void send_int(struct end *e, int n, int bye)
{
	VIP_DESCRIPTOR *d;

	*SWORD(e) = n;
	fill(e, SDESC(e), SWORD(e));
	if (bye) {
		SDESC(e)->Control.SegCount = 0;
		SDESC(e)->Control.Length = 0;
		SDESC(e)->Control.Control |= VIP_CONTROL_IMMEDIATE;
		SDESC(e)->Control.ImmediateData = BYE;
	}
	CHECK(VipPostSend(e->vi, SDESC(e), e->mh));
	CHECK(VipSendWait(e->vi, VIP_INFINITE, &d));
	if (d != SDESC(e))
		die("another descriptor was sent", n);
}

static void open_end(struct end *e, VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE ptag, VIP_CQ_HANDLE cq)
{
	VIP_VI_ATTRIBUTES va;
	VIP_MEM_ATTRIBUTES ma;
	void *page;

	e->nic = nic;
	if (posix_memalign(&page, 4096, 4096))
		die("memalign", 0);
	e->page = page;
	ma.Ptag = ptag;
	ma.EnableRdmaWrite = 0;
	ma.EnableRdmaRead = 0;
	CHECK(VipRegisterMem(nic, e->page, 4096, &ma, &e->mh));
	if (e->mh == 0)
		die("memory handle 0", 0);
	memset(&va, 0, sizeof va);
	va.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
	va.MaxTransferSize = 32768;
	va.Ptag = ptag;
	CHECK(VipCreateVi(nic, &va, NULL, cq, &e->vi));
	post_recv(e);
}

static void host_addr(VIP_NIC_HANDLE nic, char *buf)
{
	VIP_NET_ADDRESS *a = (VIP_NET_ADDRESS *) buf;
	char name[128];

	gethostname(name, sizeof name);
	CHECK(VipNSInit(nic, NULL));
	CHECK(VipNSInit(nic, NULL));
	memset(buf, 0xCC, 40);
	CHECK(VipNSGetHostByName(nic, name, a, 0));
	CHECK(VipNSShutdown(nic));
	if (a->HostAddressLen != 6)
		die("host address", a->HostAddressLen);
}

static void set_disc(char *buf, const char *disc)
{
	VIP_NET_ADDRESS *a = (VIP_NET_ADDRESS *) buf;

	a->DiscriminatorLen = strlen(disc);
	memcpy(buf + 10, disc, strlen(disc));
}

/* A client: asks NREQ times for the double of a number. */
static void *client_thread(void *arg)
{
	long id = (long) arg;
	static VIP_NIC_HANDLE shared;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	VIP_PROTECTION_HANDLE ptag;
	VIP_VI_ATTRIBUTES va;
	VIP_DESCRIPTOR *d;
	long laddr[5], raddr[5];	/* 40 bytes each */
	struct end e;
	int i, rc;

	pthread_mutex_lock(&lock);
	if (shared == NULL)
		CHECK(VipOpenNic("/dev/clanvi0", &shared));
	pthread_mutex_unlock(&lock);
	CHECK(VipCreatePtag(shared, &ptag));
	open_end(&e, shared, ptag, NULL);
	host_addr(shared, (char *) laddr);
	memcpy(raddr, laddr, 40);
	set_disc((char *) laddr, "c");
	set_disc((char *) raddr, port);
	while ((rc = VipConnectRequest(e.vi, (VIP_NET_ADDRESS *) laddr, (VIP_NET_ADDRESS *) raddr,
	    30000, &va)) == VIP_NO_MATCH)
		;
	if (rc)
		die("VipConnectRequest", rc);
	for (i = 0; i < NREQ; i++) {
		send_int(&e, id * 1000 + i, 0);
		while ((rc = VipRecvDone(e.vi, &d)) == VIP_NOT_DONE)
			usleep(0);
		if (rc)
			die("VipRecvDone", rc);
		if (*RWORD(&e) != 2 * (int) (id * 1000 + i))
			die("answer", *RWORD(&e));
		post_recv(&e);
	}
	send_int(&e, 0, 1);
	/* No draining: the receive is still posted. */
	CHECK(VipDisconnect(e.vi));
	CHECK(VipDestroyVi(e.vi));
	CHECK(VipDeregisterMem(shared, e.page, e.mh));
	free(e.page);
	return NULL;
}

static struct end ends[NCLI];
static VIP_CQ_HANDLE cq;

/* Serves until every client has said bye. */
static void *server_thread(void *arg)
{
	long *served = arg;
	int byes = 0;

	while (byes < NCLI) {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN isrecv;
		VIP_DESCRIPTOR *d;
		int i, rc;

		CHECK(VipCQWait(cq, VIP_INFINITE, &vi, &isrecv));
		if (!isrecv)
			die("a send on a receive-only queue", 0);
		for (i = 0; i < NCLI && ends[i].vi != vi; i++)
			;
		if (i == NCLI)
			die("unknown VI", 0);
		rc = VipRecvDone(vi, &d);
		if (rc == VIP_DESCRIPTOR_ERROR && d != NULL &&
		    (d->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR))
			continue;	/* of a client that left */
		if (rc)
			die("VipRecvDone", rc);
		if (d->Control.Status & VIP_STATUS_IMMEDIATE) {
			if (d->Control.ImmediateData != BYE || d->Control.Length != 0)
				die("signal", d->Control.ImmediateData);
			byes++;
			continue;
		}
		{
			struct end *e = &ends[i];
			int n = *RWORD(e);

			post_recv(e);
			send_int(e, 2 * n, 0);
		}
		++*served;
	}
	return NULL;
}

static void quiet(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
	/* Clients leave; anything else is wrong. */
	(void) context;
	if (e->ErrorCode != VIP_ERROR_CONN_LOST)
		die("asynchronous error", e->ErrorCode);
}

static void server(void)
{
	VIP_NIC_HANDLE nic, again;
	VIP_PROTECTION_HANDLE ptag;
	VIP_VI_ATTRIBUTES va;
	VIP_CONN_HANDLE conn;
	pthread_t st, ct[LOCAL];
	long laddr[5], raddr[5];
	long served = 0, i;

	CHECK(VipOpenNic("VINIC0", &nic));
	CHECK(VipOpenNic("VINIC0", &again));
	if (nic == again)
		die("one handle for two openings", 0);
	CHECK(VipCloseNic(again));
	CHECK(VipErrorCallback(nic, NULL, quiet));
	CHECK(VipCreatePtag(nic, &ptag));
	CHECK(VipCreateCQ(nic, 1024, &cq));
	for (i = 0; i < NCLI; i++)
		open_end(&ends[i], nic, ptag, cq);
	CHECK(pthread_create(&st, NULL, server_thread, &served));
	for (i = 0; i < LOCAL; i++)
		CHECK(pthread_create(&ct[i], NULL, client_thread, (void *) i));
	host_addr(nic, (char *) laddr);
	set_disc((char *) laddr, port);
	for (i = 0; i < NCLI; i++) {
		CHECK(VipConnectWait(nic, (VIP_NET_ADDRESS *) laddr, VIP_INFINITE,
		    (VIP_NET_ADDRESS *) raddr, &va, &conn));
		CHECK(VipConnectAccept(conn, ends[i].vi));
	}
	for (i = 0; i < LOCAL; i++)
		pthread_join(ct[i], NULL);
	pthread_join(st, NULL);
	for (i = 0; i < NCLI; i++) {
		CHECK(VipDisconnect(ends[i].vi));
		CHECK(VipDestroyVi(ends[i].vi));
	}
	CHECK(VipDestroyCQ(cq));
	printf("vthreads server: %d clients, %ld requests\n", NCLI, served);
	CHECK(VipCloseNic(nic));
}

int main(int argc, char **argv)
{
	pthread_t ct[REMOTE];
	long i;

	if (argc != 3)
		die("usage: vthreads server|client port", 0);
	port = argv[2];
	if (strcmp(argv[1], "server") == 0) {
		server();
		return 0;
	}
	for (i = 0; i < REMOTE; i++)
		CHECK(pthread_create(&ct[i], NULL, client_thread, (void *) (LOCAL + i)));
	for (i = 0; i < REMOTE; i++)
		pthread_join(ct[i], NULL);
	printf("vthreads client: %d clients, %d requests\n", REMOTE, REMOTE * NREQ);
	return 0;
}
