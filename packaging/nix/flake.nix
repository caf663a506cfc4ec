# SPDX-License-Identifier: GPL-2.0-only
# NixOS: `nix build 'git+file:.?dir=packaging/nix'` in a checkout; the module sets `services.asa.enable`.
{
  description = "Keeps the sched_ext CPU scheduler loaded that suits the present workload";

  inputs.nixpkgs.url = "flake:nixpkgs";

  outputs = { self, nixpkgs }: {
    packages = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: {
      default = nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
    });

    nixosModules.default = { config, lib, pkgs, ... }:
      let asa = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      in {
        options.services.asa.enable = lib.mkEnableOption "ASA, the Adaptive Scheduling Agent";
        config = lib.mkIf config.services.asa.enable {
          environment.systemPackages = [ asa ];
          services.dbus.packages = [ asa ];
          systemd.packages = [ asa ];
          systemd.user.services.asa.wantedBy = [ "graphical-session.target" ];
        };
      };
  };
}
