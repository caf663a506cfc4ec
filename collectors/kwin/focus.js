// SPDX-License-Identifier: GPL-2.0-only
// Runs inside KWin (KDE Plasma 5.27 and 6) and tells ASA which window has the focus, and when that changes. ASA puts
// its own name on the bus in the place of @NAME@, and unloads the script when it ends.
var last = null;

function inFront() {
    return workspace.activeWindow !== undefined ? workspace.activeWindow : workspace.activeClient;
}

function tell() {
    var window = inFront();
    var told = {};
    if (window) {
        told = {
            pid: window.pid,
            app: String(window.desktopFileName),
            window_class: String(window.resourceClass),
            title: String(window.caption).slice(0, 1000),
            fullscreen: Boolean(window.fullScreen)
        };
    }
    callDBus("@NAME@", "/org/asa/Focus", "org.asa.Focus", "Tell", JSON.stringify(told));
}

function follow() {
    if (last) {
        try {
            last.fullScreenChanged.disconnect(tell);
            last.captionChanged.disconnect(tell);
        } catch (gone) {
            // it was closed
        }
    }
    last = inFront();
    if (last) {
        last.fullScreenChanged.connect(tell);
        last.captionChanged.connect(tell);
    }
    tell();
}

(workspace.windowActivated !== undefined ? workspace.windowActivated : workspace.clientActivated).connect(follow);
follow();
