# SPDX-License-Identifier: GPL-2.0-only
# Python libraries are those of nixpkgs. Units, bus and polkit files go where `asa.install.payload` has them below /usr.
{ lib, python3, llvmPackages, libbpf, elfutils, linuxHeaders }:

let
  places = {
    "lib/systemd/system" = [ "asa-helper.service" "asa-system.service" ];
    "lib/systemd/user" = [ "asa.service" ];
    "share/dbus-1/system.d" = [ "org.asa.Helper1.conf" ];
    "share/dbus-1/system-services" = [ "org.asa.Helper1.service" ];
    "share/polkit-1/actions" = [ "org.asa.helper1.policy" ];
  };
  install = folder: names: lib.concatMapStringsSep "\n" (name: ''
    install -Dm644 asa/data/${name} "$out/${folder}/${name}"
    sed -i "s|/usr/bin/asa|$out/bin/asa|g" "$out/${folder}/${name}"
  '') names;
in
python3.pkgs.buildPythonApplication {
  pname = "asa";
  version = "0.1.0";
  pyproject = true;
  src = ../..;

  build-system = [ python3.pkgs.hatchling ];
  dependencies = with python3.pkgs; [ jeepney msgspec numpy pyyaml rich textual ];
  nativeBuildInputs = [ llvmPackages.clang-unwrapped llvmPackages.llvm ];

  preBuild = ''
    CPATH=${libbpf}/include:${linuxHeaders}/include python -m collectors.ebpf.build
    python -c "from models import runtime_compiled; runtime_compiled.build()"
  '';
  postInstall = lib.concatStringsSep "\n" (lib.mapAttrsToList install places);
  makeWrapperArgs = [ "--prefix" "LD_LIBRARY_PATH" ":" (lib.makeLibraryPath [ libbpf elfutils ]) ];

  meta = {
    description = "Keeps the sched_ext CPU scheduler loaded that suits the present workload";
    license = lib.licenses.gpl2Only;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "asa";
  };
}
