# Not run: there was no Nix to try it with.
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }:

pkgs.rustPlatform.buildRustPackage {
  pname = "pagewise";
  version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
  src = ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [ "--package" "pagewise" "--bin" "pagewise" ];
  # tests borrow devices and cgroups of the machine
  doCheck = false;
  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    mkdir pages
    $out/bin/pagewise man pages
    installManPage pages/* packaging/man/*
    installShellCompletion --cmd pagewise \
      --bash <($out/bin/pagewise completions bash) \
      --fish <($out/bin/pagewise completions fish) \
      --zsh <($out/bin/pagewise completions zsh)
  '';
  meta = {
    description = "Finds out what a machine's memory is doing, and improves it with proof";
    license = with pkgs.lib.licenses; [ asl20 mit ];
    platforms = pkgs.lib.platforms.linux;
    mainProgram = "pagewise";
  };
}
