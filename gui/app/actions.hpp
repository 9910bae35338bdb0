// Every command of the program, once: menus, command palette and the sheet of keys are made from this list, so that none can forget one.
#pragma once

#include <QKeySequence>
#include <QList>
#include <QObject>
#include <QString>

#include <functional>
#include <vector>

class QAction;
class QMenuBar;
class QWidget;

namespace orrery {

struct ActionSpec {
    QString id;   // "file.open": stable, for settings and tests
    QString menu; // the menu it is in: "&File"
    QString text, tip;
    QList<QKeySequence> shortcuts{};
    bool separator_before = false;
    bool in_menu = true; // false: palette and sheet only
};

class ActionRegistry : public QObject {
    Q_OBJECT
  public:
    explicit ActionRegistry(QWidget& window);

    // Adds the command to the window; aborts where the id is taken (our bug).
    QAction& add(const ActionSpec& spec, std::function<void()> run);
    QAction& add(const ActionSpec& spec, QAction& existing); // a view's own toggle, or undo and redo of a stack

    QAction* find(const QString& id) const;
    const std::vector<QAction*>& actions() const { return actions_; }
    static QString menuOf(const QAction& action); // without its mnemonic: "File"

    // Menus in the order their first command came.
    void fill(QMenuBar& bar) const;

  private:
    QAction& adopt(const ActionSpec& spec, QAction& action);
    QWidget& window_;
    std::vector<QAction*> actions_;
};

// Keys that no action has because views handle them, for the sheet: what, then the keys.
struct ViewKeys {
    QString view, what, keys;
};
std::vector<ViewKeys> view_keys();

} // namespace orrery
