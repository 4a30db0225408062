"""Which IP addresses are public: those that the operators of this network have nothing behind."""

from ipaddress import IPv4Address, IPv6Address, ip_network

_UNICAST = ip_network("2000::/3")
"""All of IPv6 that is given to networks. Python counts others as global, such as fec0::/10."""

_DOCUMENTATION = ip_network("3fff::/20")
"""RFC 9637, which Python 3.11 does not know."""


def is_public(ip: IPv4Address | IPv6Address) -> bool:
    """Whether an address is of the public internet, and of one host."""
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return False
    return isinstance(ip, IPv4Address) or (ip in _UNICAST and ip not in _DOCUMENTATION)
