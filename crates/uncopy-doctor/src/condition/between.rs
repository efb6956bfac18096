//! Conditions of copies between machines.

use super::{Topic, table};

table! { Topic::Network;
BETWEEN_SSH = "between-ssh", "The bytes go through ssh", Copies, false,
"Without connections of its own, the program writes into a pipe to `ssh`, which encrypts what it reads from there and sends it; `sshd` does the same in the other direction at the other end. Connections are not made if the options or the configuration of either end want none, or if the other end was not reached by an address (`SSH_CONNECTION`).",
"Each byte passes two pipes and is encrypted and decrypted by one thread of ssh at each end.",
"Let both ends make data connections: the doctor says why they do not.";
BETWEEN_TLS = "between-tls", "The bytes are encrypted on data connections", Copies, false,
"The program makes TCP connections beside ssh, and encrypts by TLS 1.3 with keys that were exchanged through ssh. Encrypting writes other bytes into other memory, so nothing is lent to the kernel, and a packet tap costs nothing more.",
"Each byte is read, encrypted into a buffer and copied into a socket; several connections share the work among processors.",
"";
BETWEEN_OPEN = "between-open", "The bytes go over open data connections", Copies, false,
"The options want TCP connections beside ssh without TLS. The end with the source sends files by `sendfile(2)`, and the digest (BLAKE3) of each piece through ssh; the other end reads each piece into memory, compares its digest and writes it. Whoever is on the way can read the bytes; what is changed there is sent again through ssh.",
"Each byte is read once for its digest, lent to a socket, and copied twice at the other end: from the socket and into the file.",
"";
BETWEEN_NO_ADDRESS = "between-no-address", "The address of the other end is unknown", Note, false,
"The other end has no valid `SSH_CONNECTION` in its environment: the remote shell is not ssh, or `sudo` or a script removed the variable. It is the address that ssh came to, and only there would the other end listen.",
"No data connections are made.",
"Let the remote shell keep SSH_CONNECTION (for sudo: env_keep in sudoers(5)).";
BETWEEN_UNRESOLVED = "between-unresolved", "The name of the other end has no address here", Note, false,
"ssh knows the other end under this name (`ssh -G` prints its `hostname`), and the resolver of this machine does not.",
"No data connections are made.",
"Give the host an address in DNS or in /etc/hosts, or name its address (HostName in ssh_config(5)).";
BETWEEN_PROXIED = "between-proxied", "ssh goes through a third machine", Note, false,
"`ssh -G` prints a `proxyjump` or a `proxycommand` for this host. The other end may not be reachable without it, and whoever configured it may not want that.",
"No data connections are made.",
"Name the address of the other machine, if it can be reached directly.";
BETWEEN_FORBIDDEN = "between-forbidden", "Data connections are not wanted", Note, false,
"The options of this end, or the configuration of either end, want everything to go through ssh; a configuration there that cannot be read may want that too.",
"No data connections are made.",
"";
BETWEEN_SLOW_CIPHER = "between-slow-cipher", "ssh begins with a slower cipher", Note, false,
"`ssh -G` lists the ciphers that ssh offers, the preferred one first; the other end takes the first one that it knows. The processor here has instructions for AES, and AES-GCM takes less processor time then than ChaCha20-Poly1305.",
"What goes through ssh takes more processor time than it could.",
"Put aes128-gcm@openssh.com first in Ciphers of ssh_config(5), for this host.";
BETWEEN_KTLS = "between-ktls", "The kernel can encrypt TLS", Note, false,
"`tls` is in `/proc/sys/net/ipv4/tcp_available_ulp` here or at the other end. uncopy encrypts in the program all the same: kernel TLS is reported for completeness.",
"It has no influence.",
"";
BETWEEN_NOT_CONFINED = "between-not-confined", "The other end cannot confine itself", Note, false,
"The kernel there has no Landlock (`landlock(7)`), or it is not enabled at boot (`lsm=`). The program there then protects files outside of the copy by opening every name beneath descriptors alone.",
"It has no influence on the bytes.",
"";
BETWEEN_NO_REFLINK = "between-no-reflink", "The filesystem of the destination shares no blocks", Note, false,
"A trial in the directory of the destination: `FICLONERANGE` between two files without a name.",
"Bytes that come from another machine are written in any case. A later copy of them there will be a real one.",
"";
}
