// Type a few letters of a command, press Enter. Made from the registry of actions.
#pragma once

#include <QAbstractListModel>
#include <QDialog>

#include <vector>

class QAction;
class QLineEdit;
class QListView;

namespace orrery {

class ActionRegistry;

// How well `pattern`'s letters match `text` in order; 0: not at all. Beginnings of words and runs count more.
int fuzzy_score(const QString& pattern, const QString& text);

// The commands that match, best first.
class CommandModel : public QAbstractListModel {
    Q_OBJECT
  public:
    enum Role { ShortcutRole = Qt::UserRole + 1 };
    explicit CommandModel(const ActionRegistry& registry, QObject* parent = nullptr);
    void setPattern(const QString& pattern);
    QAction* action(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;

  private:
    const ActionRegistry& registry_;
    std::vector<QAction*> shown_;
};

class CommandPalette : public QDialog {
    Q_OBJECT
  public:
    CommandPalette(const ActionRegistry& registry, QWidget* parent);

  protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void run();
    CommandModel* model_;
    QLineEdit* line_;
    QListView* list_;
};

} // namespace orrery
