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
BETWEEN_OPEN = "between-open", "The bytes go unencrypted", Note, false,
"The options ask for plain TCP connections. Digests that travel through ssh protect the bytes against changes, and nothing keeps them secret.",
"The kernel sends from the page cache (`sendfile`), and whoever is on the path reads the bytes.",
"Use it only on a network where everybody may read the files.";
BETWEEN_NO_ADDRESS = "between-no-address", "The address of the other end is unknown", Note, false,
"The other end has no valid `SSH_CONNECTION` in its environment: the remote shell is not ssh, or `sudo` or a script removed the variable. It is the address that ssh came to, and only there would the other end listen.",
"No data connections are made.",
"Let the remote shell keep SSH_CONNECTION (sudo: --preserve-env=SSH_CONNECTION).";
BETWEEN_FORBIDDEN = "between-forbidden", "Data connections are not wanted", Note, false,
"The options of this end, or the configuration of either end, want everything to go through ssh.",
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
