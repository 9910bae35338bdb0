// The table of strategies: filter, sort, pin a baseline, choose rows; what is chosen here every other view shows.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"

#include <QStyledItemDelegate>
#include <QWidget>

class QLineEdit;
class QTableView;

namespace orrery {

class StrategiesModel;
class StrategiesProxy;

// A row's step as a bar, all rows on one scale.
class BreakdownDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    bool helpEvent(QHelpEvent* event, QAbstractItemView* view, const QStyleOptionViewItem& option, const QModelIndex& index) override;
};

class StrategiesView : public QWidget, public AsTable {
    Q_OBJECT
  public:
    StrategiesView(RunStore& store, ViewState& state, QWidget* parent = nullptr);

    QTableView& table() { return *table_; }
    StrategiesModel& model() { return *model_; }
    std::vector<RunId> selectedRuns() const; // in the order shown
    TextTable asTable() const override;      // the rows shown; of each the seconds of every category
    void pinCurrent();                       // as the baseline; again: none
    void removeSelected();
    void focusFilter();

  Q_SIGNALS:
    void editRequested(orrery::RunId run);
    void sweptRequested(int number); // a sweep's point, in full

  protected:
    void changeEvent(QEvent* event) override;

  private:
    void makeHeader();
    void showSelection(); // the state's runs, in the table
    void tellSelection();
    void menu(const QPoint& at);
    void columnMenu(const QPoint& at);
    void showNotes();
    TextTable rowsAsTable(const std::vector<int>& rows) const; // in the order shown

    RunStore& store_;
    ViewState& state_;
    StrategiesModel* model_;
    StrategiesProxy* proxy_;
    QLineEdit* filter_;
    QTableView* table_;
    bool telling_ = false;
    bool notes_chosen_ = false; // the user says whether their column is shown
};

} // namespace orrery
