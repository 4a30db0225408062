"""The netlink requests that set up a job's network link, and remove what the kernel keeps of it.

Every function raises OSError when the kernel refuses the request.
Numbers are those of include/uapi/linux/{netlink,rtnetlink,if_link,veth}.h, and of nfnetlink.h and
nfnetlink_conntrack.h in its netfilter directory. Used on both sides of the fork, so it has few
imports.
"""

import _socket as socket  # see sandbox/wire.py
import os
import struct

_NETLINK_ROUTE, _NETLINK_NETFILTER = 0, 12
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_DELLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 17, 20, 24
_CONNTRACK_DELETE = 1 << 8 | 2
"""Message 2 of the subsystem 1."""
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 3, 18, 19
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_GATEWAY, _RTA_OIF = 5, 4
_CTA_MARK, _CTA_MARK_MASK = 8, 21
_IFF_UP = 1
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST = 254, 4, 1
_HEADER = struct.Struct("=IHHII")


def add_veth(name: str, peer: str, peer_pid: int) -> None:
    """Create a veth pair with the peer in the network namespace of a process."""
    peer_link = _link(0, 0) + _attribute(_IFLA_IFNAME, peer.encode() + b"\0")
    peer_link += _attribute(_IFLA_NET_NS_PID, struct.pack("=i", peer_pid))
    data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, peer_link))
    info = _attribute(_IFLA_LINKINFO, _attribute(_IFLA_INFO_KIND, b"veth") + data)
    body = _link(0, 0) + _attribute(_IFLA_IFNAME, name.encode() + b"\0") + info
    _request(_RTM_NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body, f"make {name}")


def delete_link(name: str) -> None:
    """Delete an interface, and with it its peer."""
    body = _link(0, 0) + _attribute(_IFLA_IFNAME, name.encode() + b"\0")
    _request(_RTM_DELLINK, 0, body, f"delete {name}")


def configure(name: str, address: str) -> int:
    """Give an interface an address of a /31 network, and bring it up; returns its index."""
    index = socket.if_nametoindex(name)
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBI", socket.AF_INET, 31, 0, 0, index)
    body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _request(_RTM_NEWADDR, _NLM_F_CREATE | _NLM_F_EXCL, body, f"address of {name}")
    _request(_RTM_NEWLINK, 0, _link(index, _IFF_UP), f"bring {name} up")
    return index


def add_default_route(index: int, gateway: str) -> None:
    """Add a default route through a gateway."""
    body = struct.pack(
        "=BBBBBBBBI",
        socket.AF_INET, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_STATIC, 0, _RTN_UNICAST, 0,
    )  # fmt: skip
    body += _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
    body += _attribute(_RTA_OIF, struct.pack("=I", index))
    _request(_RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, body, "default route")


def delete_connections(mark: int, mask: int) -> None:
    """Delete the entries of the connection table whose mark, with the mask applied, is `mark`.

    Kernels before 6.8 delete by no other property.
    """
    body = struct.pack("=BBH", socket.AF_UNSPEC, 0, 0)
    body += _attribute(_CTA_MARK, struct.pack("!I", mark))
    body += _attribute(_CTA_MARK_MASK, struct.pack("!I", mask))
    _request(_CONNTRACK_DELETE, 0, body, "delete connections", _NETLINK_NETFILTER)


def _request(kind: int, flags: int, body: bytes, what: str, protocol: int = _NETLINK_ROUTE) -> None:
    """Send one request and wait for the acknowledgement; raises OSError with `what`."""
    flags |= _NLM_F_REQUEST | _NLM_F_ACK
    message = _HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    try:
        sock.bind((0, 0))
        sock.send(message)
        answer = sock.recv(4096)
    finally:
        sock.close()
    answered = _HEADER.unpack_from(answer)[1]
    error = struct.unpack_from("=i", answer, _HEADER.size)[0] if answered == _NLMSG_ERROR else 0
    if error:
        raise OSError(-error, f"{what}: {os.strerror(-error)}")


def _link(index: int, flags: int) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (-size % 4)
