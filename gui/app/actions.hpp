// Every command of the program, once, those of its views among them: menus, command palette and the sheet of keys are made from this
// list, so that none can forget one.
#pragma once

#include "gui/core/view_command.hpp"

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

    // A view's own command: in palette and sheet. Its keys are the view's to handle, while it has the focus. title: the view's.
    void addOfView(const QString& view, const QString& title, const ViewCommand& command, std::function<void()> run);
    // Actions of the mouse, and of every table: for the sheet alone.
    void addHint(const QString& title, const QString& what, const QString& keys);

    QAction* find(const QString& id) const;
    const std::vector<QAction*>& actions() const { return actions_; }
    struct Hint {
        QString title, what, keys;
    };
    const std::vector<Hint>& hints() const { return hints_; }
    static QString menuOf(const QAction& action); // without its mnemonic: "File"
    static QString keysOf(const QAction& action); // as people read them; empty: none

    // Menus in the order their first command came.
    void fill(QMenuBar& bar) const;

  private:
    QAction& adopt(const ActionSpec& spec, QAction& action);
    QWidget& window_;
    std::vector<QAction*> actions_;
    std::vector<Hint> hints_;
};

} // namespace orrery
