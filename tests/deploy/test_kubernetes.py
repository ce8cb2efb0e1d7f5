"""deploy/kubernetes: its objects, what may reach what, probes, drains and settings, checked without a cluster."""

import importlib.resources
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from sojourn.serving.hardening.loop_guard import _CLOSING
from sojourn.serving.hardening.loop_watch import GIVEN_UP
from sojourn.worker import DRAIN

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BASE = FOLDER / "base"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
VERSIONS = ["1.30", "1.37"]
"""The oldest version that has all fields, and the newest that has schemas here."""

SCALED_OBJECT = Path(__file__).parent / "scaledobject-keda-v1alpha1.json"
TRIGGER = {
    *("endpoint", "namespace", "taskQueue", "queueTypes", "targetQueueSize", "activationTargetQueueSize"),
    *("minConnectTimeout", "enableTLS", "unsafeSsl", "tlsServerName"),
    *("workerDeploymentName", "workerDeploymentBuildId"),
    *("includeRunningWorkflowCount", "workflowTaskQueueForCount"),
}
"""The fields of KEDA's `temporal` trigger, of its version 2.21."""


def objects_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a folder's kustomization, and of those that it includes, unpatched."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        place = folder / name
        if place.is_dir():
            yield from objects_of(place)
        else:
            yield from yaml.safe_load_all(place.read_text())


OBJECTS = list(objects_of(FOLDER / "autoscaled"))
SETTINGS = dict(line.split("=", 1) for line in (BASE / "settings.env").read_text().splitlines())


def find(kind: str, name: str) -> Any:
    (found,) = (each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


WORKLOADS = {
    each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["template"]
    for each in OBJECTS
    if each["kind"] in ("Deployment", "Job")
}


def container_of(component: str) -> dict[str, Any]:
    (container,) = WORKLOADS[component]["spec"]["containers"]
    return container


def test_every_file_is_used() -> None:
    """Each file is an object, a configuration or a setting of a kustomization, so that the tests see it."""
    named = {FOLDER / folder / "kustomization.yaml" for folder in ("base", "autoscaled")}
    for path in list(named):
        kustomization = yaml.safe_load(path.read_text())
        generated = kustomization.get("configMapGenerator", [])
        files = [name for each in generated for name in [*each.get("envs", []), *each.get("files", [])]]
        for name in [*kustomization["resources"], *files]:
            named.add((path.parent / name.rpartition("=")[2]).resolve())
    assert named == {path for path in FOLDER.rglob("*") if path.is_file()} | {BASE}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(version: str) -> None:
    """Each object fits the schema of its kind, which allows no other field; KEDA's is of its own schema."""
    for each in OBJECTS:
        if each["kind"] == "ScaledObject":
            jsonschema.validate(each, json.loads(SCALED_OBJECT.read_text()))
        else:
            kubernetes_validate.validate(each, version, strict=True)
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"port": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_pods_are_restricted_and_bounded(subtests: pytest.Subtests) -> None:
    """The namespace admits only restricted pods. None has root, a token of the cluster, a writable image or unbounded resources."""
    labels = find("Namespace", "sojourn")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for component, template in WORKLOADS.items():
        with subtests.test(component=component):
            pod, container = template["spec"], container_of(component)
            assert pod["automountServiceAccountToken"] is False
            assert pod["enableServiceLinks"] is False
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] > 0
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory", "ephemeral-storage"} == container["resources"]["limits"].keys()
            assert container["resources"]["requests"].keys() == container["resources"]["limits"].keys()
            assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
            for volume in pod["volumes"]:
                assert volume.keys() - {"name"} <= {"emptyDir", "configMap", "secret"}
                assert volume.get("emptyDir") is None or volume["emptyDir"]["sizeLimit"]


def test_it_is_what_compose_has() -> None:
    """Images, the gateway's methods, the search attributes, the command of the HTTP service and its key file are those of compose."""
    services = COMPOSE["services"]
    same = {
        "gateway": "gateway",
        "worker": "worker",
        "http": "http",
        "search-attributes": "temporal-namespace",
    }
    for component, service in same.items():
        assert container_of(component)["image"] == services[service]["image"]
    assert container_of("http")["command"] == services["http"]["command"]
    (script,) = services["temporal-namespace"]["command"]
    assert container_of("search-attributes")["args"] == [script.replace("$$", "$")]
    there = COMPOSE["configs"]["gateway"]["content"].replace("$$", "$")
    names = {
        "resolver 127.0.0.11": "resolver kube-dns.kube-system.svc.cluster.local",
        "server temporal:7233": f"server {SETTINGS['TEMPORAL_ADDRESS']}",
    }
    for name, here in names.items():
        assert name in there
        there = there.replace(name, here)
    assert (BASE / "gateway.conf").read_text().split("\n", 1)[1] == there


SECRET = re.compile(r"PASS|PWD|SECRET|TOKEN|KEY", re.IGNORECASE)


def test_secrets_are_references() -> None:
    """No secret stands in a file, and a worker gets none that opens Temporal past the gateway."""
    assert not any(SECRET.search(name) for name in SETTINGS)
    assert not [each for each in OBJECTS if each["kind"] == "Secret"]
    for component in WORKLOADS:
        for variable in container_of(component).get("env", []):
            assert not SECRET.search(variable["name"])
    secrets = {
        component: [
            each["secretRef"]["name"]
            for each in container_of(component).get("envFrom", [])
            if "secretRef" in each
        ]
        for component in WORKLOADS
    }
    assert secrets == {
        "worker": ["sojourn-worker"],
        "http": ["sojourn-temporal", "sojourn-http"],
        "search-attributes": ["sojourn-temporal"],
        "gateway": [],
    }


def test_both_read_and_write_with_the_same_encryption_keys() -> None:
    """The worker and the HTTP service mount one key ring, if there is one, readable by their group alone."""
    mounted = []
    for component in ("worker", "http"):
        (volume,) = [each for each in WORKLOADS[component]["spec"]["volumes"] if each["name"] == "keyring"]
        (mount,) = [each for each in container_of(component)["volumeMounts"] if each["name"] == "keyring"]
        assert WORKLOADS[component]["spec"]["securityContext"]["fsGroup"] > 0
        mounted.append((volume, mount))
    assert mounted[0] == mounted[1]
    secret = mounted[0][0]["secret"]
    assert secret == {"secretName": "sojourn-keyring", "defaultMode": 0o440, "optional": True}


def test_a_worker_drains_and_is_probed_by_its_own_port() -> None:
    """It has the time of its drain, is restarted only after it would have ended by itself, and is ready when it polls."""
    container, pod = container_of("worker"), WORKLOADS["worker"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= DRAIN.total_seconds() + _CLOSING
    environment = {each["name"]: each["value"] for each in container["env"]}
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert environment["SOJOURN_HEALTH_PORT"] == f"0.0.0.0:{ports['health']}"
    assert environment["SOJOURN_METRICS_PORT"] == f"0.0.0.0:{ports['metrics']}"
    assert environment["TEMPORAL_ADDRESS"] == "sojourn-gateway:7233"
    live, ready = container["livenessProbe"], container["readinessProbe"]
    assert live["httpGet"] == {"path": "/live", "port": "health"}
    assert ready["httpGet"] == {"path": "/ready", "port": "health"}
    assert live["periodSeconds"] * live["failureThreshold"] > GIVEN_UP
    annotations = WORKLOADS["worker"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])


def test_what_has_a_service_leaves_it_before_it_stops(subtests: pytest.Subtests) -> None:
    """Each service names a port of its pods, and a pod has time for its pause and its end; a rollout loses no capacity."""
    for name in ("gateway", "http"):
        with subtests.test(name=name):
            pod, container = WORKLOADS[name]["spec"], container_of(name)
            pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod["terminationGracePeriodSeconds"] >= pause + 10
            (port,) = find("Service", f"sojourn-{name}")["spec"]["ports"]
            assert port["targetPort"] in {each["name"] for each in container["ports"]}
    for name in ("gateway", "http", "worker"):
        with subtests.test(rollout=name):
            deployment = find("Deployment", f"sojourn-{name}")["spec"]
            assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
            labels = WORKLOADS[name]["metadata"]["labels"]
            selectors = [
                deployment["selector"],
                find("PodDisruptionBudget", f"sojourn-{name}")["spec"]["selector"],
            ]
            assert selectors == [{"matchLabels": labels}] * 2


def selects(selector: dict[str, Any], component: str) -> bool:
    """Return whether a policy's selector chooses the pods of a component."""
    labels = WORKLOADS[component]["metadata"]["labels"]
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def peers_of(component: str, direction: str) -> set[str]:
    """Name what a component may reach, or what may reach it: components, namespaces and `internet`, with ports."""
    peers: set[str] = set()
    for each in OBJECTS:
        if each["kind"] != "NetworkPolicy" or not selects(each["spec"]["podSelector"], component):
            continue
        for rule in each["spec"].get("egress" if direction == "to" else "ingress", []):
            ports = ",".join(sorted({str(port["port"]) for port in rule.get("ports", [])})) or "*"
            for peer in rule[direction]:
                if "ipBlock" in peer:
                    names = ["internet"]
                elif "namespaceSelector" in peer:
                    names = [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]]
                else:
                    names = [other for other in WORKLOADS if selects(peer["podSelector"], other)]
                peers |= {f"{name}:{ports}" for name in names}
    return peers


def test_a_pod_reaches_these_and_no_others() -> None:
    """As in compose, tools see the gateway and the internet; only what starts and answers runs reaches Temporal."""
    nothing = find("NetworkPolicy", "nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    reached = {component: peers_of(component, "to") for component in WORKLOADS}
    assert reached == {
        "worker": {"kube-system:53", "gateway:grpc", "internet:*"},
        "gateway": {"kube-system:53", "temporal:7233"},
        "http": {"kube-system:53", "temporal:7233", "internet:443"},
        "search-attributes": {"kube-system:53", "temporal:7233"},
    }
    assert {component: peers_of(component, "from") for component in WORKLOADS} == {
        "worker": {"monitoring:metrics"},
        "gateway": {"worker:grpc"},
        "http": {"ingress-nginx:http"},
        "search-attributes": set(),
    }
    blocks = [
        peer["ipBlock"]
        for each in OBJECTS
        if each["kind"] == "NetworkPolicy"
        for rule in each["spec"].get("egress", [])
        for peer in rule["to"]
        if "ipBlock" in peer
    ]
    private = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"}
    assert len(blocks) == 3
    for block in blocks:
        assert {each for each in private if (":" in each) == (":" in block["cidr"])} <= set(block["except"])


def test_workers_follow_the_backlog_of_their_task_queue() -> None:
    """KEDA reads the queue that the workers poll, where the settings say, and changes their deployment one worker at a time downwards."""
    scaled = find("ScaledObject", "sojourn-worker")["spec"]
    (trigger,) = scaled["triggers"]
    assert trigger["type"] == "temporal"
    assert trigger["metadata"].keys() <= TRIGGER
    assert {name: trigger["metadata"][name] for name in ("endpoint", "namespace", "taskQueue")} == {
        "endpoint": SETTINGS["TEMPORAL_ADDRESS"],
        "namespace": SETTINGS["TEMPORAL_NAMESPACE"],
        "taskQueue": SETTINGS["SOJOURN_TASK_QUEUE"],
    }
    assert trigger["metadata"]["enableTLS"] == "false"
    deployment = find("Deployment", scaled["scaleTargetRef"]["name"])
    assert scaled["minReplicaCount"] >= deployment["spec"]["replicas"]
    (policy,) = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]["policies"]
    assert policy["periodSeconds"] >= WORKLOADS["worker"]["spec"]["terminationGracePeriodSeconds"]


def program(name: str) -> str | None:
    """Return a program of the machine, or one that Go built."""
    return shutil.which(name) or shutil.which(name, path=str(Path("~/go/bin").expanduser()))


KUBECTL, KUBECONFORM = program("kubectl"), program("kubeconform")


def kustomized(folder: str) -> str:
    """Return what `kubectl apply --kustomize` sends."""
    command = [str(KUBECTL), "kustomize", str(FOLDER / folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(KUBECTL is None, reason="no kubectl here")
def test_kustomize_makes_the_same_objects() -> None:
    """It makes the objects that these tests read, all in one namespace, and leaves the number of workers to KEDA."""
    base, autoscaled = (list(yaml.safe_load_all(kustomized(folder))) for folder in ("base", "autoscaled"))
    generated = {"ConfigMap"}
    names = {(each["kind"], each["metadata"]["name"]) for each in OBJECTS}
    assert {
        (each["kind"], each["metadata"]["name"]) for each in autoscaled if each["kind"] not in generated
    } == names
    assert {each["metadata"].get("namespace", each["metadata"]["name"]) for each in autoscaled} == {"sojourn"}
    for objects, replicas in ((base, 2), (autoscaled, None)):
        (worker,) = (
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == ("Deployment", "sojourn-worker")
        )
        assert worker["spec"].get("replicas") == replicas
        pod = worker["spec"]["template"]["spec"]
        assert re.fullmatch(r"registry\.example\.com/sojourn-worker:[\d.]+", pod["containers"][0]["image"])
        (settings,) = (
            source["configMapRef"]["name"]
            for source in pod["containers"][0]["envFrom"]
            if "configMapRef" in source
        )
        assert settings in {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"}


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(KUBECONFORM is None, reason="no kubeconform here; docs/deploy.md says how to get it")
def test_kubeconform_accepts_it(tmp_path: Path) -> None:
    """Kubeconform finds no unknown field and no wrong value, with the schemas that the tests have here."""
    schemas = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    with importlib.resources.as_file(schemas / f"v{VERSIONS[-1]}.0-local-strict") as folder:
        kinds = {(each["apiVersion"], each["kind"]) for each in OBJECTS if each["kind"] != "ScaledObject"}
        names = ["-".join([kind, *api.replace(".k8s.io", "").split("/")]).lower() for api, kind in kinds]
        for name in [*names, "_definitions"]:
            schema = json.loads((folder / f"{name}.json").read_text())
            # They name each other by an address that kubeconform would ask.
            schema.pop("$id", None)
            text = json.dumps(schema).replace("/api/_definitions.json", "_definitions.json")
            (tmp_path / f"{name}.json").write_text(text)
    shutil.copy(SCALED_OBJECT, tmp_path)
    places = f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [str(KUBECONFORM), "-strict", "-summary", "-schema-location", places, "-"]
    text = yaml.safe_dump_all(OBJECTS)
    environment = {**os.environ, "HOME": str(tmp_path)}

    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, input=text, env=environment, check=False, capture_output=True, text=True
        )

    done = run(text)
    assert done.returncode == 0, done.stdout
    assert f"Valid: {len(OBJECTS)}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout
    refused = run(yaml.safe_dump(find("Deployment", "sojourn-worker")).replace("failureThreshold", "failure"))
    assert refused.returncode == 1
    assert "additional properties 'failure' not allowed" in refused.stdout
