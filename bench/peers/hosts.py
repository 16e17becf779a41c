"""Hosts made of namespaces: each has its own network and host name, and a link to a bridge. A token bucket filter
(tbf) holds the link to a rate in both directions. The bridge is in a namespace of its own, so this machine's own
interfaces are never touched. A namespace lives as long as a process that sleeps in it. The kernel kills these
processes when this program ends in any way, and so everything is removed."""

import json
import os
import subprocess

from jobs import die_with_parent

NETWORK = "10.77.0.0/24"
LINK = "hkt-cmp"
# The largest packet that the stack may pass to a link, and the burst that passes at once after the link was idle.
PACKET_BYTES = 32 << 10
BURST_BYTES = 40 << 10
QUEUE_MS = 50  # how long a packet may wait for a link


class HostsError(Exception):
    pass


class NotPermitted(HostsError):
    pass


def call(*command, given=""):
    done = subprocess.run(command, capture_output=True, text=True, input=given)
    if done.returncode != 0:
        raise HostsError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Hosts:
    """with Hosts(2, 1e9, folder) as hosts: ..."""

    def __init__(self, count, bits_per_second, folder, queue_ms=QUEUE_MS, congestion=None):
        self.count, self.bits_per_second, self.folder, self.queue_ms = count, bits_per_second, folder, queue_ms
        self.congestion = congestion  # TCP's congestion control; None: this machine's
        self.holders = []
        self.agent = os.path.join(folder, "enter-host")

    def __enter__(self):
        try:
            os.makedirs(self.folder)
            self.switch = self._namespace("switch")
            self.pids = [self._namespace(f"h{host}") for host in range(self.count)]
            self._link_all()
            self._choose_congestion()
            self._write_agent()
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.communicate()
        self.holders = []

    def _namespace(self, name):
        """Returns the pid of a process that sleeps in a new namespace.

        Its /sys shows its own interfaces, and its /dev/shm ends with it."""
        script = (
            f"hostname hkt-cmp-{os.getpid()}-{name} && mount -t sysfs sysfs /sys && "
            "mount -t tmpfs tmpfs /dev/shm && ip link set lo up && "
            "echo ready && exec sleep infinity"
        )
        holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=die_with_parent,
        )
        self.holders.append(holder)
        assert holder.stdout and holder.stderr  # pipes
        if holder.stdout.readline().strip() != "ready":
            raise NotPermitted("namespaces are not permitted here: " + holder.stderr.read().strip())
        return holder.pid

    def _in(self, pid, command, given=""):
        return call("nsenter", "-t", str(pid), "--net", *command.split(), given=given)

    def _link_all(self):
        self._in(self.switch, f"ip link add {LINK} type bridge")
        self._in(self.switch, f"ip link set {LINK} up")
        for host in range(self.count):
            self._link(host, LINK)

    def _link(self, host, bridge):
        pid, port = self.pids[host], f"{LINK}-{host}"
        self._in(self.switch, f"ip link add {port} type veth peer name {LINK} netns {pid}")
        self._in(self.switch, f"ip link set {port} master {bridge} up")
        self._in(pid, f"ip address add {self.address(host)}/24 dev {LINK}")
        self._in(pid, f"ip link set {LINK} up")
        self._hold_to_rate(self.switch, port, self._rate_of(host))
        self._hold_to_rate(pid, LINK, self._rate_of(host))

    def _rate_of(self, _host):
        return self.bits_per_second

    def _hold_to_rate(self, pid, interface, bits_per_second):
        bucket = f"rate {bits_per_second:.0f}bit burst {BURST_BYTES} latency {self.queue_ms}ms"
        self._in(pid, f"ip link set {interface} gso_max_size {PACKET_BYTES}")
        self._in(pid, f"tc qdisc add dev {interface} root tbf {bucket}")

    def _choose_congestion(self):
        if not self.congestion:
            return
        for host, pid in enumerate(self.pids):
            route = f"{NETWORK} dev {LINK} src {self.address(host)}"
            self._in(pid, f"ip route replace {route} congctl {self.congestion}")

    def _write_agent(self):
        """Writes the program that MPI's launchers run instead of ssh: enter-host ADDRESS COMMAND..."""
        with open(self.agent, "w") as agent:
            agent.write("#!/bin/sh\ncase $1 in\n")
            for host, pid in enumerate(self.pids):
                agent.write(f"{self.address(host)}) pid={pid} ;;\n")
            agent.write(
                '*) echo "no such host: $1" >&2; exit 1 ;;\nesac\nshift\n'
                'exec setpriv --pdeathsig KILL nsenter -t $pid --net --uts --mount -- sh -c "$*"\n'
            )
        os.chmod(self.agent, 0o755)

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def variables(self, host):
        """Returns what Hocket's ranks on that host are told beside their numbers."""
        return {"HOCKET_FABRIC_ADDR": self.address(host)}

    def enter(self, host):
        """Returns the prefix of a command that runs it on that host."""
        return ["nsenter", "-t", str(self.pids[host]), "--net", "--uts", "--mount", "--"]

    def traffic(self):
        """Returns the bytes so far over each link, per direction."""
        links = json.loads(self._in(self.switch, f"ip -s -j link show master {LINK}"))
        return [link["stats64"][way]["bytes"] for link in links for way in ("rx", "tx")]
