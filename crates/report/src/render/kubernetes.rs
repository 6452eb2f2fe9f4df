// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a plan as a `ConfigMap` with the script of [`super::shell`], and a `DaemonSet` that runs it on each
//! node.

use super::layout::Layout;
use super::{heading, quote, shell};

const DAEMON_SET: &str = r#"---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: pagewise-plan
  namespace: kube-system
spec:
  selector:
    matchLabels: {app: pagewise-plan}
  template:
    metadata:
      labels: {app: pagewise-plan}
    spec:
      # Choose the nodes that the plan was made for.
      nodeSelector: {pagewise-plan: "true"}
      hostPID: true
      initContainers:
        - name: apply
          # REPLACE: an image of your registry with sh and chroot, such as busybox
          image: "REPLACE-WITH-IMAGE-WITH-SHELL"
          command: ["sh", "-c", "chroot /host /bin/sh -s </plan/apply.sh"]
          securityContext: {privileged: true}
          volumeMounts:
            - {name: host, mountPath: /host}
            - {name: plan, mountPath: /plan}
      containers:
        - name: pause
          # REPLACE: the pause image of your cluster
          image: "REPLACE-WITH-PAUSE-IMAGE"
      volumes:
        - name: host
          hostPath: {path: /}
        - name: plan
          configMap: {name: pagewise-plan}
"#;

pub(super) fn render(layout: &Layout<'_>) -> (Option<String>, Vec<String>) {
    let mut left_out = layout.list_left_out();
    if layout.zram.is_some() || layout.swap_file.is_some() {
        let kubelet = "Swap on a node: kubelet starts only with failSwapOn: false, and pods use swap only with \
                       memorySwap.swapBehavior: LimitedSwap. Set both in its KubeletConfiguration first.";
        left_out.push(kubelet.to_owned());
    }
    if layout.is_empty() {
        return (None, left_out);
    }
    let script = shell::script(layout, &left_out);
    let text = format!(
        "{}# Label the nodes: kubectl label node NAME pagewise-plan=true. Replace the two images.\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: pagewise-plan\n  namespace: kube-system\ndata:\n  \
         apply.sh: {}{DAEMON_SET}",
        heading(layout, &left_out),
        quote::yaml_block(&script, 4)
    );
    (Some(text), left_out)
}
