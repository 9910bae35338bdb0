// A view's own commands, said once: the view's keys, the palette and the sheet of keys are made from one list.
#pragma once

#include <QKeyEvent>
#include <QKeySequence>
#include <QList>
#include <QString>

#include <algorithm>
#include <functional>
#include <vector>

namespace orrery {

struct ViewCommand {
    QString id;                  // "critical": stable, for tests; the window puts the view's name before it
    QString text, tip;           // "Critical path"; what it does, a sentence
    QList<QKeySequence> keys{};  // pressed while the view has the focus
    QString mouse{};             // what the mouse does instead, in words: "Ctrl+wheel"
    std::function<void()> run{}; // null: the mouse alone does it
};

class HasCommands {
  public:
    virtual ~HasCommands() = default;
    virtual std::vector<ViewCommand> commands() = 0;
};

// Whether a key is one of them. Keys that are no letters may need Shift on some keyboards: there Shift does not count.
inline bool is_key(const QKeyEvent& event, const QKeySequence& key) {
    const QKeyCombination pressed(event.modifiers() & ~Qt::KeypadModifier, static_cast<Qt::Key>(event.key())), wanted = key[0];
    if (pressed == wanted) return true;
    const int k = event.key();
    const bool symbol = k > Qt::Key_Space && k < 0x100 && !(k >= Qt::Key_A && k <= Qt::Key_Z);
    return symbol && k == wanted.key() && (pressed.keyboardModifiers() & ~Qt::ShiftModifier) == wanted.keyboardModifiers();
}

// Runs the one that the key stands for; false: none does.
inline bool run_key(const std::vector<ViewCommand>& commands, const QKeyEvent& event) {
    for (const ViewCommand& c : commands) {
        const bool mine = c.run && std::any_of(c.keys.begin(), c.keys.end(), [&](const QKeySequence& k) { return is_key(event, k); });
        if (!mine) continue;
        c.run();
        return true;
    }
    return false;
}

} // namespace orrery
