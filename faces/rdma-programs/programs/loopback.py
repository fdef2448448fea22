"""A message from one queue pair to another, both in this process."""

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

context = Context(name="viaduct0")
domain, queue = PD(context), CQ(context, 16)
region = MR(domain, 64, e.IBV_ACCESS_LOCAL_WRITE)


def make():
    sizes = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    return QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=sizes))


def connect(own, peer):
    route = GlobalRoute(dgid=context.query_gid(1, 0), sgid_index=0)
    attributes = QPAttr(port_num=1)
    attributes.dest_qp_num = peer.qp_num
    attributes.path_mtu = e.IBV_MTU_1024
    attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, 7
    own.to_rts(attributes)


sender, receiver = make(), make()
connect(sender, receiver)
connect(receiver, sender)
region.write(b"over verbs", 10, 0)
receiver.post_recv(RecvWR(num_sge=1, sg=[SGE(region.buf + 32, 10, region.lkey)]))
send = [SGE(region.buf, 10, region.lkey)]
sender.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=send))
done = []
while len(done) < 2:
    done += queue.poll(2)[1]
assert all(each.status == e.IBV_WC_SUCCESS for each in done)
print(region.read(10, 32).decode())
